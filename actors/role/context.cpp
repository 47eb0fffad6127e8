#include "actors/role/context.hpp"

#include "actors/links/message_links.hpp"

namespace troupe {

std::shared_ptr<LinkMemory> RoleContext::memory() const {
  return links ? links->memory() : nullptr;
}

std::shared_ptr<Executor> make_role_executor(const RoleContext& context) {
  return std::make_shared<Executor>(to_string(context.role),
                                    context.job->options.threads_per_device);
}

} // namespace troupe

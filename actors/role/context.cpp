#include "actors/role/context.hpp"

#include "actors/links/message_links.hpp"

#include <iostream>

namespace troupe {

std::shared_ptr<LinkMemory> RoleContext::memory() const {
  return links ? links->memory() : nullptr;
}

void tell(const RoleContext& context, const std::string& line) {
  if (context.own_process)
    std::cerr << to_string(context.role) + ": " + line + '\n';
}

std::shared_ptr<Executor> make_role_executor(const RoleContext& context) {
  return std::make_shared<Executor>(to_string(context.role),
                                    context.job->options.threads_per_device);
}

} // namespace troupe

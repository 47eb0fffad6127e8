#include "actors/role_context.hpp"

namespace troupe {

std::shared_ptr<Executor> make_role_executor(const RoleContext& context) {
  return std::make_shared<Executor>(to_string(context.role),
                                    context.job->options.threads_per_device);
}

} // namespace troupe

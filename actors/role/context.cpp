#include "actors/role/context.hpp"

#include "actors/links/message_links.hpp"

#include <iostream>
#include <utility>

namespace troupe {

std::shared_ptr<LinkMemory> RoleContext::memory() const {
  return links ? links->memory() : nullptr;
}

void tell(const RoleContext& context, const std::string& line) {
  if (context.own_process)
    std::cerr << to_string(context.role) + ": " + line + '\n';
}

void record_in(const std::string& folder, RoleContext& context) {
  if (folder.empty())
    return;
  try {
    context.flight = std::make_shared<FlightRecorder>(folder,
                                                      to_string(context.role));
  } catch (const InputError& failure) {
    tell(context, failure.what() + std::string{"; it goes on without"});
  }
}

MetricsReport sign_of(const RoleContext& context) {
  auto awaited = context.awaited->get();
  MetricsReport sign{context.role, 0, {}};
  sign.awaits_samples = awaited.waits;
  sign.readers = std::move(awaited.readers);
  return sign;
}

std::shared_ptr<Executor> make_role_executor(const RoleContext& context) {
  return std::make_shared<Executor>(to_string(context.role),
                                    context.job->options.threads_per_device);
}

} // namespace troupe

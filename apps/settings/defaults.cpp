#include "apps/settings/defaults.hpp"

namespace troupe {

Settings defaults_of(const std::string& command) {
  Settings out;
  out.command = command;
  if (command == "bench step") {
    out.job.strategy = Strategy::one_device;
    out.job.global_batch = 256;
  } else if (command == "role") {
    out.job.strategy = Strategy::parameter_server;
  }
  return out;
}

} // namespace troupe

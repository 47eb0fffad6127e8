#include "actors/launch/job_runner.hpp"
#include "apps/settings/commands.hpp"

#include <cstdio>

namespace troupe {

int run_ctl_consistency(const Settings& settings) {
  const auto line = switch_consistency(
    settings.coordinator, certificate_source(settings), settings.consistency);
  std::printf("%s\n", line.c_str());
  return 0;
}

int run_ctl_reshape(const Settings& settings) {
  const auto line = reshape_job(settings.coordinator,
                                certificate_source(settings), settings.change);
  std::printf("%s\n", line.c_str());
  return 0;
}

} // namespace troupe

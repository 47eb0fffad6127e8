#include "apps/process/chrome_trace.hpp"
#include "apps/settings/commands.hpp"

#include <cstdio>

namespace troupe {

int run_timeline(const Settings& settings) {
  const auto line = draw_timeline(settings.events.path, settings.out);
  std::printf("%s\n", line.c_str());
  return 0;
}

} // namespace troupe

#pragma once

#include <cstdlib>
#include <string>

namespace troupe::test {

/// The stand-in, or the plugin that the environment names.
inline std::string plugin_file() {
  const char* given = std::getenv("TROUPE_PJRT_PLUGIN");
  return given != nullptr ? given : TROUPE_PJRT_STAND_IN;
}

} // namespace troupe::test

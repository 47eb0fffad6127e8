#pragma once

namespace troupe {

#ifndef TROUPE_VERSION
#  define TROUPE_VERSION "0.1.0"
#endif
inline constexpr const char* version = TROUPE_VERSION;

} // namespace troupe

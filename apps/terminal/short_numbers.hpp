#pragma once

#include <string>

namespace troupe {

/// 95.0, 950, 12.3k, 1.25M; "-" for what is unknown or below 0.
std::string short_number(double value);
/// 912 B, 1.5 KiB, 12.0 MiB; "-" for what is unknown.
std::string short_bytes(double bytes);
/// 0:07, 12:34, 1:02:03; "-" for what is unknown or below 0, and no more than
/// 99:59:59.
std::string short_duration(double seconds);

} // namespace troupe

#pragma once

#include "kernels/columns/column_rule.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// A time as a column holds it.
struct ReadDate {
  double seconds = 0; ///< since 2000-01-01T00:00:00 UTC
  // As it is written, whatever the offset from UTC.
  uint32_t weekday = 0; ///< 0: Monday
  uint32_t hour = 0;
  uint32_t month = 0; ///< 0: January
};

/// Reads a day, and the time of day that may follow it after a space or T:
///   ymd   2024-02-29, 2024/2/29 or 2024.2.29
///   dmy   29.02.2024 and so on; mdy 02/29/2024
///         … 13:45, 13:45:07, 13:45:07.25; then Z, +01:00, +0100 or +01
///   unix  seconds since 1970 as a number
/// Nothing where it is not one, of the years 1 to 9999.
std::optional<ReadDate> parse_date(std::string_view text, DateForm form);

/// Years of 365.25 days since the beginning of 2000.
float years_of(const ReadDate& date);

/// Where position `at` of a circle of `around` (7, 12 or 24) positions lies;
/// tables, since the C library's sines have other bits on other machines.
struct CirclePlace {
  float sine;
  float cosine;
};
CirclePlace on_circle(uint32_t at, uint32_t around);

} // namespace troupe

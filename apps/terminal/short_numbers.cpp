#include "apps/terminal/short_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace troupe {
namespace {

template <class... Values>
std::string short_text(const char* format, Values... values) {
  char text[32];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

bool is_amount(double value) {
  return std::isfinite(value) && value >= 0;
}

} // namespace

std::string short_number(double value) {
  if (!is_amount(value))
    return "-";
  if (value >= 1e6)
    return short_text("%.2fM", value / 1e6);
  if (value >= 1e4)
    return short_text("%.1fk", value / 1e3);
  return short_text(value < 100 ? "%.1f" : "%.0f", value);
}

std::string short_bytes(double bytes) {
  if (!std::isfinite(bytes))
    return "-";
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return short_text(unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes,
                    units[unit]);
}

std::string short_duration(double seconds) {
  if (!is_amount(seconds))
    return "-";
  constexpr double longest = 359'999; // 99:59:59
  const auto all =
    static_cast<unsigned>(std::lround(std::min(seconds, longest)));
  const auto hours = all / 3600;
  return hours > 0 ? short_text("%u:%02u:%02u", hours, all / 60 % 60, all % 60)
                   : short_text("%u:%02u", all / 60, all % 60);
}

} // namespace troupe

#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace troupe {

/// A loss, or another measure, as lines show it; "-": it is not known.
inline std::string measure_text(double value) {
  if (!std::isfinite(value))
    return "-";
  char text[400]; // as many digits as a double has before the point
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

} // namespace troupe

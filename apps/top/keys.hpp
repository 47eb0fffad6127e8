#pragma once

#include "apps/top/page.hpp"

#include <string_view>

namespace troupe {

/// What keys change.
struct View {
  PageOptions options;
  bool shows_log = false;
  bool quits = false;
};

/// Presses what was typed, as a terminal sends it: letters, and sequences for
/// arrows and pages. `page` is what was on the screen. What means nothing is
/// ignored.
void press(std::string_view typed, const Page& page, View& view);

} // namespace troupe

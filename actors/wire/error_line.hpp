#pragma once

#include "actors/wire/caf.hpp"

#include <string>

namespace troupe {

/// The line that an actor's refusal was made with; CAF's own words where it was
/// made without.
inline std::string line_of(const caf::error& why) {
  if (auto line =
        caf::make_const_typed_message_view<std::string>(why.context()))
    return caf::get<0>(line);
  return caf::to_string(why);
}

} // namespace troupe

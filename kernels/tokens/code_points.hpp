#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

/// The bytes of the first character of a text, which is UTF-8 and not empty.
size_t code_point_bytes(std::string_view text);

/// Takes it off the front.
int32_t take_code_point(std::string_view& text);

} // namespace troupe

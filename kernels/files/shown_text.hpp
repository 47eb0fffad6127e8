#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Text of a file or a stranger as a line on a terminal: UTF-8 as it is, '?'
/// for each control character (also those above ASCII), each that turns the
/// direction of writing, and each byte that is not UTF-8.
std::string shown_text(std::string_view text);

/// Whether all of a text is UTF-8.
bool is_utf8(std::string_view text);

} // namespace troupe

#include "apps/terminal/columns.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// Bytes that go on with a character take no column.
bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u;
}

} // namespace

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

std::string cut_to(size_t columns, const std::string& text) {
  size_t taken = 0;
  for (size_t at = 0; at < text.size(); ++at)
    if (begins_character(text[at]) && ++taken > columns)
      return text.substr(0, at);
  return text;
}

std::string shortened_to(size_t columns, const std::string& text) {
  if (columns == 0 || columns_of(text) <= columns)
    return cut_to(columns, text);
  return cut_to(columns - 1, text) + "…";
}

} // namespace troupe

#include "kernels/files/shown_text.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe {
namespace {

/// A code point and how many bytes it takes; none: not UTF-8 there.
struct Character {
  uint32_t value = 0;
  size_t bytes = 0;
};

Character first_of(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (at(0) < 0x80)
    return {at(0), 1};
  const size_t bytes = at(0) >= 0xf0 ? 4 : at(0) >= 0xe0 ? 3 : 2;
  if (at(0) < 0xc2 || at(0) > 0xf4 || text.size() < bytes)
    return {};
  uint32_t value = at(0) & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80)
      return {};
    value = value << 6 | (at(i) & 0x3f);
  }
  const uint32_t lowest = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  return value < lowest || value > 0x10ffff || surrogate
           ? Character{}
           : Character{value, bytes};
}

bool steers_a_terminal(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) // C0, DEL, C1
         || c == 0x061c || c == 0x200e       // marks of direction
         || c == 0x200f || c == 0x2028       // ends of lines
         || c == 0x2029 || (c >= 0x202a && c <= 0x202e)
         || (c >= 0x2066 && c <= 0x2069); // overrides, isolates
}

} // namespace

std::string shown_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [value, bytes] = first_of(text);
    if (bytes == 0 || steers_a_terminal(value))
      out += '?';
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto bytes = first_of(text).bytes;
    if (bytes == 0)
      return false;
    text.remove_prefix(bytes);
  }
  return true;
}

} // namespace troupe

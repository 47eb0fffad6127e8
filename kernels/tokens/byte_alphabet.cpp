#include "kernels/tokens/byte_alphabet.hpp"

#include "kernels/tokens/code_points.hpp"

#include <array>

namespace troupe {

namespace {

constexpr int32_t first_other = 0x100;

constexpr bool is_visible(int32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac)
         || byte >= 0xae;
}

/// The byte that each character stands for; -1: none.
constexpr auto byte_of = [] {
  std::array<int32_t, 2 * 256> out{};
  out.fill(-1);
  auto next = first_other;
  for (int32_t byte = 0; byte < 256; ++byte)
    out[static_cast<size_t>(is_visible(byte) ? byte : next++)] = byte;
  return out;
}();

} // namespace

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  std::string out;
  while (!characters.empty()) {
    const auto character = static_cast<size_t>(take_code_point(characters));
    if (character >= byte_of.size() || byte_of[character] < 0)
      return std::nullopt;
    out += static_cast<char>(byte_of[character]);
  }
  return out;
}

} // namespace troupe

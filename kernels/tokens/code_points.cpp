#include "kernels/tokens/code_points.hpp"

#include <algorithm>

namespace troupe {

size_t code_point_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(bytes, text.size());
}

int32_t take_code_point(std::string_view& text) {
  const auto bytes = code_point_bytes(text);
  int32_t value = static_cast<unsigned char>(text.front())
                  & (bytes > 1 ? 0x7f >> bytes : 0x7f);
  for (size_t i = 1; i < bytes; ++i)
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  text.remove_prefix(bytes);
  return value;
}

} // namespace troupe

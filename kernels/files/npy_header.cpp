#include "kernels/files/npy_header.hpp"

namespace troupe {

std::string npy_header(const std::string& type,
                       const std::vector<uint64_t>& shape) {
  std::string extents;
  for (auto extent : shape)
    extents += std::to_string(extent) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1)
    extents.resize(extents.size() - 2);
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, "
                     + "'shape': (" + extents + "), }";
  // What stands before the text, and the line's end: values begin aligned.
  constexpr size_t before = 10;
  constexpr size_t alignment = 64;
  text.append(alignment - 1 - (before + text.size()) % alignment, ' ');
  text += '\n';
  std::string out{"\x93NUMPY\x01\x00", 8};
  out += static_cast<char>(text.size() & 0xff);
  out += static_cast<char>(text.size() >> 8 & 0xff);
  return out + text;
}

} // namespace troupe

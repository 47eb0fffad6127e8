#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The beginning of an array file of NumPy (.npy, format version 1.0): the
/// values follow, in C order, of a type such as "<f4" or "<i4".
/// Source: numpy.lib.format, "NPY format".
std::string npy_header(const std::string& type,
                       const std::vector<uint64_t>& shape);

} // namespace troupe

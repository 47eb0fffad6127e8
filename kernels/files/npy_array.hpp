#pragma once

#include "kernels/files/payload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// An array as NumPy's save writes it.
struct NpyArray {
  std::string path;
  char kind = 'f';         ///< f float, i signed, u unsigned, b bool
  uint32_t item_bytes = 4; ///< 1, 2, 4 or 8
  std::vector<uint64_t> shape;
  Payload data;

  uint64_t items() const;
  /// Item `i` as float64; integers of 64 bits are rounded.
  double item(uint64_t i) const;
};

/// Reads an array, plain or .gz; a plain file of this machine is mapped.
/// Errors: InputError (no array file, another version, Fortran order, pickled
/// objects, another type or byte order, a size that is not the shape's).
/// Source: NumPy, numpy.lib.format, versions 1.0, 2.0, 3.0.
NpyArray read_npy_array(const DataFile& file);

} // namespace troupe

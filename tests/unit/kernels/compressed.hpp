#pragma once

#include "kernels/compression/compressor.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace troupe::test {

/// Gradients as they are: sizes over several powers of ten.
inline std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random) * std::exp2(std::floor(3 * draw(random)));
  return values;
}

using CompressedBytes = std::vector<std::byte>;

inline CompressedBytes compressed(const Compression& format,
                                  const std::vector<float>& values,
                                  std::vector<float>* residual = nullptr) {
  auto compressor = make_compressor(format);
  CompressedBytes out(compressor->bytes(values.size()), std::byte{0xcc});
  compressor->compress(values.data(), residual ? residual->data() : nullptr,
                       values.size(), out.data());
  return out;
}

inline std::vector<float> decompressed(const Compression& format,
                                       const CompressedBytes& bytes,
                                       size_t count) {
  std::vector<float> out(count, std::numeric_limits<float>::quiet_NaN());
  make_compressor(format)->decompress(bytes, count, out.data());
  return out;
}

inline bool same_bits(const std::vector<float>& a,
                      const std::vector<float>& b) {
  return a.size() == b.size()
         && (a.empty()
             || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

} // namespace troupe::test

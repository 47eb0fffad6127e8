#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Elements that share a scale (int8) or two means (one bit).
constexpr size_t int8_block = 256;
constexpr size_t onebit_block = 512;

/// The loops of lossy formats compiled for one instruction set; all tables give
/// the same bytes and bits. Encoders read values plus residual, where there is
/// one, and leave what the bytes do not say in it; 0 where that is not finite.
/// Decoders write `out`, or add to it. Layouts: compression/compressor.hpp.
struct CompressionLoops {
  using Encode = void (*)(const float* values, float* residual, size_t count,
                          unsigned char* out);
  using Decode = void (*)(const unsigned char* in, size_t count, float* out,
                          bool adds);
  Encode float16_encode;
  Decode float16_decode;
  Encode bfloat16_encode;
  Decode bfloat16_decode;
  Encode int8_encode;
  Decode int8_decode;
  Encode onebit_encode;
  Decode onebit_decode;
};

/// The table of an instruction set; without one, of the set selected.
const CompressionLoops& compression_loops(Isa isa);
const CompressionLoops& compression_loops();

} // namespace troupe::kernels

#include "kernels/compression/formats.hpp"
#include "kernels/cpu/compression_loops.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::kernels {

namespace {

size_t blocks(size_t count, size_t size) {
  return (count + size - 1) / size;
}

float float_at(const std::byte* in) {
  float value = 0;
  std::memcpy(&value, in, sizeof value);
  return value;
}

class Int8 final : public Compressor {
public:
  size_t bytes(size_t count) const override {
    return count + sizeof(float) * blocks(count, int8_block);
  }

  void compress(const float* values, float* residual, size_t count,
                std::byte* out) const override {
    compression_loops().int8_encode(values, residual, count,
                                    reinterpret_cast<unsigned char*>(out));
  }

protected:
  std::string fault(const std::byte* in, size_t count) const override {
    for (size_t begin = 0; begin < count; begin += int8_block) {
      const auto size = std::min(int8_block, count - begin);
      const auto scale = float_at(in);
      if (std::signbit(scale) || std::isinf(scale))
        return "a scale that is negative or infinite";
      in += sizeof scale;
      if (std::find(in, in + size, std::byte{0x80}) != in + size)
        return "a code of -128";
      in += size;
    }
    return {};
  }

  void decode(const std::byte* in, size_t count, float* out,
              bool adds) const override {
    compression_loops().int8_decode(reinterpret_cast<const unsigned char*>(in),
                                    count, out, adds);
  }

  std::string name() const override { return "int8"; }
};

class OneBit final : public Compressor {
public:
  size_t bytes(size_t count) const override {
    static_assert(onebit_block % 8 == 0);
    return (count + 7) / 8 + 2 * sizeof(float) * blocks(count, onebit_block);
  }

  void compress(const float* values, float* residual, size_t count,
                std::byte* out) const override {
    compression_loops().onebit_encode(values, residual, count,
                                      reinterpret_cast<unsigned char*>(out));
  }

protected:
  std::string fault(const std::byte* in, size_t count) const override {
    for (size_t begin = 0; begin < count; begin += onebit_block) {
      const auto size = std::min(onebit_block, count - begin);
      if (float_at(in) > 0 || float_at(in + sizeof(float)) < 0)
        return "a mean of the wrong sign";
      in += 2 * sizeof(float);
      const auto last = static_cast<unsigned>(in[(size - 1) / 8]);
      if (size % 8 != 0 && last >> (size % 8) != 0)
        return "bits beyond the last value";
      in += (size + 7) / 8;
    }
    return {};
  }

  void decode(const std::byte* in, size_t count, float* out,
              bool adds) const override {
    compression_loops().onebit_decode(
      reinterpret_cast<const unsigned char*>(in), count, out, adds);
  }

  std::string name() const override { return "onebit"; }
};

} // namespace

std::unique_ptr<Compressor> make_int8() {
  return std::make_unique<Int8>();
}

std::unique_ptr<Compressor> make_onebit() {
  return std::make_unique<OneBit>();
}

} // namespace troupe::kernels

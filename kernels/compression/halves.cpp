#include "kernels/compression/formats.hpp"
#include "kernels/cpu/compression_loops.hpp"

namespace troupe::kernels {

namespace {

/// Sixteen bits a value: every pattern is a value.
class Halves final : public Compressor {
public:
  explicit Halves(bool bfloat) : bfloat_(bfloat) {}

  size_t bytes(size_t count) const override { return 2 * count; }

  void compress(const float* values, float* residual, size_t count,
                std::byte* out) const override {
    const auto& loops = compression_loops();
    auto encode = bfloat_ ? loops.bfloat16_encode : loops.float16_encode;
    encode(values, residual, count, reinterpret_cast<unsigned char*>(out));
  }

protected:
  std::string fault(const std::byte*, size_t) const override { return {}; }

  void decode(const std::byte* in, size_t count, float* out,
              bool adds) const override {
    const auto& loops = compression_loops();
    auto decode = bfloat_ ? loops.bfloat16_decode : loops.float16_decode;
    decode(reinterpret_cast<const unsigned char*>(in), count, out, adds);
  }

  std::string name() const override { return bfloat_ ? "bf16" : "fp16"; }

private:
  bool bfloat_;
};

} // namespace

std::unique_ptr<Compressor> make_float16() {
  return std::make_unique<Halves>(false);
}

std::unique_ptr<Compressor> make_bfloat16() {
  return std::make_unique<Halves>(true);
}

} // namespace troupe::kernels

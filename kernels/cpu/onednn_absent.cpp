#include "kernels/base/require.hpp"
#include "kernels/cpu/convolution.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/onednn_pin.hpp"

// Stands in for oneDNN in a build without it: float32 alone.

namespace troupe::kernels {

bool pin_onednn(Isa) {
  return true; // the own loops may change theirs at any time
}

std::string onednn_version() {
  return {};
}

bool has_bfloat16() {
  return false;
}

struct Multiplier::Bfloat16 {};

Multiplier::Multiplier(Precision precision) {
  require(precision == Precision::float32,
          "bfloat16 in a build without oneDNN");
}

Multiplier::~Multiplier() = default;

void Multiplier::multiply(Side side_a, Side side_b, size_t m, size_t n,
                          size_t k, const float* a, const float* b, float* c,
                          bool accumulate) {
  kernels::multiply(side_a, side_b, m, n, k, a, b, c, accumulate);
}

OperatorPtr make_bfloat16_convolution(const CpuOpSite&) {
  require(false, "bfloat16 in a build without oneDNN");
  return nullptr;
}

} // namespace troupe::kernels

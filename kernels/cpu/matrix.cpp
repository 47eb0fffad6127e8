#include "kernels/cpu/matrix.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <stdexcept>
#include <string>

namespace troupe::kernels {

// dnnl_sgemm rather than cached matmul primitives, both single-threaded, all
// eight products of a step of 784-512-256-10, in µs (EPYC of 118 GFLOP/s a
// core, oneDNN 2.6.3, brgemm for matmul):
//   rows      16    64   128   256
//   sgemm    386  1397  2733  5443   (115 GFLOP/s at 256 rows)
//   matmul   412  1417  2764  5513
// Ten independent FMAs on 512 bits in a loop: 118 GFLOP/s. An own kernel could
// save 7 % at 64 rows at most; leaving zeros out (nonzero_matrix.hpp) saves
// more.
void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c, bool accumulate) {
  auto extent = [](size_t x) { return static_cast<dnnl_dim_t>(x); };
  auto lda = side_a == Side::as_is ? k : m;
  auto ldb = side_b == Side::as_is ? n : k;
  auto status = dnnl_sgemm(static_cast<char>(side_a), static_cast<char>(side_b),
                           extent(m), extent(n), extent(k), 1.0f, a,
                           extent(lda), b, extent(ldb),
                           accumulate ? 1.0f : 0.0f, c, extent(n));
  if (status != dnnl_success)
    throw std::runtime_error("oneDNN refused a matrix product, status "
                             + std::to_string(status));
}

} // namespace troupe::kernels

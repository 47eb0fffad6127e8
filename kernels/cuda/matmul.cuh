#pragma once

#include "kernels/cuda/context.cuh"

#include <cublasLt.h>

#include <compare>
#include <map>

namespace troupe::kernels {

enum class CudaElement : uint8_t { float32, bfloat16 };

enum class MatmulEpilogue : uint8_t { none, bias, relu, relu_bias };

/// A product of row-major matrices without gaps: c [m, n] (+)= a b, then the
/// epilogue. Sums are in float32; float32 operands are not rounded first.
struct MatmulShape {
  bool transpose_a = false; ///< a lies [k, m] rather than [m, k]
  bool transpose_b = false; ///< b lies [n, k] rather than [k, n]
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  CudaElement operands = CudaElement::float32;
  CudaElement result = CudaElement::float32; ///< of the bias too
  MatmulEpilogue epilogue = MatmulEpilogue::none;
  bool accumulate = false;

  auto operator<=>(const MatmulShape&) const = default;
};

/// cuBLASLt of one context. The algorithm is chosen by the shape alone, and
/// among those that add in a fixed order, so that bits repeat.
class CudaMatmul {
public:
  explicit CudaMatmul(CudaContext& context);
  CudaMatmul(const CudaMatmul&) = delete;
  CudaMatmul& operator=(const CudaMatmul&) = delete;
  ~CudaMatmul();

  /// Tells whether the library has the product with its epilogue. Without
  /// epilogue a product that it lacks is worked out by a plain kernel.
  bool has(const MatmulShape& shape, const std::string& op);

  /// Completion: stream order.
  /// Errors: std::runtime_error naming device and operator.
  void run(const MatmulShape& shape, const void* a, const void* b, void* c,
           const void* bias, const std::string& op);

private:
  struct Plan;
  const Plan& plan_of(const MatmulShape& shape, const std::string& op);
  Plan make_plan(const MatmulShape& shape, const CudaPlace& place);

  CudaContext& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulShape, Plan> plans_;
};

/// "13.0.2" of the cuBLASLt that is loaded.
std::string blas_version();

} // namespace troupe::kernels

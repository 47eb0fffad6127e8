#include "tests/cuda_stand_in/include/cublasLt.h"
#include "tests/cuda_stand_in/include/cuda_bf16.h"
#include "tests/cuda_stand_in/include/cuda_stand_in.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

// cuBLASLt as loops, for the calls that matmul.cpp makes. It is column-major: a
// layout's columns lie one after the other.

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  uint64_t leading;

  size_t bytes() const {
    return leading * columns * (type == CUDA_R_32F ? 4 : 2);
  }
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reduction = ~0u;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256};
};

namespace {

using Desc = cublasLtMatmulDescOpaque_t;
using Matrix = cublasLtMatrixLayoutOpaque_t;

template <class T>
bool take(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to)
    return false;
  memcpy(&to, value, bytes);
  return true;
}

bool has_bias(const Desc& desc) {
  return desc.epilogue == CUBLASLT_EPILOGUE_BIAS
         || desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

/// m, n and k of a product; m 0: the layouts do not fit.
struct Extents {
  uint64_t m = 0, n = 0, k = 0;
};
Extents extents_of(const Desc& desc, const Matrix& a, const Matrix& b,
                   const Matrix& c, const Matrix& d) {
  const bool ta = desc.transpose_a == CUBLAS_OP_T;
  const bool tb = desc.transpose_b == CUBLAS_OP_T;
  const Extents e{ta ? a.columns : a.rows, tb ? b.rows : b.columns,
                  ta ? a.rows : a.columns};
  const bool fits = (tb ? b.columns : b.rows) == e.k && c.rows == e.m
                    && c.columns == e.n && d.rows == e.m && d.columns == e.n
                    && a.type == b.type && c.type == d.type
                    && (a.type != CUDA_R_32F || c.type == CUDA_R_32F)
                    && a.leading >= a.rows && b.leading >= b.rows
                    && c.leading >= c.rows && d.leading >= d.rows;
  return fits ? e : Extents{};
}

/// An algorithm is good for the problem that it was found for.
cublasLtMatmulAlgo_t algorithm_of(const Desc& desc, const Matrix& a,
                                  const Matrix& b, const Matrix& c,
                                  uint64_t alignment) {
  return {{1 + uint64_t(desc.transpose_a) + 2 * uint64_t(desc.transpose_b),
           uint64_t(desc.epilogue), uint64_t(a.type) << 8 | uint64_t(c.type),
           a.rows, a.columns, b.rows, b.columns, alignment}};
}

std::vector<float> read(const void* at, const Matrix& x, bool transposed) {
  std::vector<float> result(x.rows * x.columns);
  for (uint64_t c = 0; c < x.columns; ++c)
    for (uint64_t r = 0; r < x.rows; ++r) {
      const auto i = c * x.leading + r;
      const auto value =
        x.type == CUDA_R_32F
          ? static_cast<const float*>(at)[i]
          : __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
      result[transposed ? r * x.columns + c : c * x.rows + r] = value;
    }
  return result;
}

struct Product {
  Desc desc;
  Matrix a_layout, b_layout, c_layout;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  float alpha, beta;
  Extents e;

  // Sums are in float32, in the order of k.
  void run() const {
    cuda_stand_in::will_read(a, a_layout.bytes());
    cuda_stand_in::will_read(b, b_layout.bytes());
    if (beta != 0)
      cuda_stand_in::will_read(c, c_layout.bytes());
    if (has_bias(desc))
      cuda_stand_in::will_read(desc.bias,
                               e.m * (c_layout.type == CUDA_R_32F ? 4 : 2));
    cuda_stand_in::will_write(d, c_layout.bytes());
    const auto left = read(a, a_layout, desc.transpose_a == CUBLAS_OP_T);
    const auto right = read(b, b_layout, desc.transpose_b == CUBLAS_OP_T);
    std::vector<float> before;
    if (beta != 0)
      before = read(c, c_layout, false);
    std::vector<float> column(e.m);
    for (uint64_t n = 0; n < e.n; ++n) {
      std::fill(column.begin(), column.end(), 0.0f);
      for (uint64_t k = 0; k < e.k; ++k) {
        const auto factor = right[n * e.k + k];
        const auto* from = left.data() + k * e.m;
        for (uint64_t m = 0; m < e.m; ++m)
          column[m] += from[m] * factor;
      }
      for (uint64_t m = 0; m < e.m; ++m)
        write(n, m, column[m],
              before.empty() ? 0.0f : beta * before[n * e.m + m]);
    }
  }

private:
  void write(uint64_t n, uint64_t m, float sum, float before) const {
    const bool single = c_layout.type == CUDA_R_32F;
    auto x = alpha * sum + before;
    if (has_bias(desc))
      x += single ? static_cast<const float*>(desc.bias)[m]
                  : __bfloat162float(
                    static_cast<const __nv_bfloat16*>(desc.bias)[m]);
    if (desc.epilogue == CUBLASLT_EPILOGUE_RELU
        || desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
      x = x < 0 ? 0.0f : x;
    const auto i = n * c_layout.leading + m;
    if (single)
      static_cast<float*>(d)[i] = x;
    else
      static_cast<__nv_bfloat16*>(d)[i] = __float2bfloat16_rn(x);
  }
};

template <class T>
cublasStatus_t make(T** made, T value) {
  *made = new T(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t end(T* one) {
  delete one;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t done(bool right) {
  return right ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
  return make(made, cublasLtContext{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return end(handle);
}
size_t cublasLtGetVersion() { // as of the runtime: there is none such
  return 990000;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return make(made, Desc{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return end(desc);
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return done(take(desc->transpose_a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return done(take(desc->transpose_b, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return done(take(desc->epilogue, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return done(take(desc->bias, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return done(take(desc->bias_type, value, bytes));
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return make(made,
              Matrix{type, rows, columns, static_cast<uint64_t>(leading)});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return end(layout);
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return make(made, cublasLtMatmulPreferenceOpaque_t{});
}
cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return end(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
  cublasLtMatmulPreference_t preference,
  cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
  size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return done(take(preference->workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return done(take(preference->reduction, value, bytes));
    default:
      return done(take(
        preference
          ->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
        value, bytes));
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
  cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
  cublasLtMatmulPreference_t preference, int wanted,
  cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (extents_of(*desc, *a, *b, *c, *d).m == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (has_bias(*desc) && desc->bias_type != static_cast<int32_t>(c->type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // Sums that are added up where they lie come in no order.
  if (preference->reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto available = cuda_stand_in::libraries();
  if (available == "none"
      || (available == "plain" && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto alignment = *std::min_element(preference->alignment.begin(),
                                           preference->alignment.end());
  // The first is of no use, as happens.
  const auto algorithm = algorithm_of(*desc, *a, *b, *c, alignment);
  for (; *found < std::min(wanted, 2); ++*found)
    results[*found] = {algorithm,
                       std::min<uint64_t>(preference->workspace, 4096),
                       *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED
                                   : CUBLAS_STATUS_SUCCESS,
                       1.0f,
                       {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
               const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
               cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
               cublasLtMatrixLayout_t c_layout, void* d,
               cublasLtMatrixLayout_t d_layout,
               const cublasLtMatmulAlgo_t* algorithm, void* workspace,
               size_t bytes, cudaStream_t stream) {
  Product product{*desc,
                  *a_layout,
                  *b_layout,
                  *d_layout,
                  a,
                  b,
                  c,
                  d,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  extents_of(*desc, *a_layout, *b_layout, *c_layout,
                             *d_layout)};
  const auto alignment = algorithm->data[7];
  const auto meant = algorithm_of(*desc, *a_layout, *b_layout, *c_layout,
                                  alignment);
  if (product.e.m == 0
      || !std::equal(std::begin(meant.data), std::end(meant.data),
                     std::begin(algorithm->data)))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto* at : {a, b, c, static_cast<const void*>(d)})
    if (reinterpret_cast<uintptr_t>(at) % alignment != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  const auto status = cuda_stand_in::enqueue(
    stream, "cublasLtMatmul", [product, workspace, bytes] {
      cuda_stand_in::will_write(workspace, bytes);
      product.run();
    });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                               : CUBLAS_STATUS_EXECUTION_FAILED;
}

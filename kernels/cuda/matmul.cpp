#include "kernels/cuda/matmul.cuh"

#include "kernels/base/require.hpp"
#include "kernels/cuda/library.cuh"
#include "kernels/cuda/product.cuh"

#include <array>

namespace troupe::kernels {

namespace {

struct BlasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmulDescCreate) make_desc;
  decltype(&cublasLtMatmulDescDestroy) end_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutCreate) make_layout;
  decltype(&cublasLtMatrixLayoutDestroy) end_layout;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) end_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

BlasLt load() {
  const CudaLibrary library("cuBLASLt", "libcublasLt.so."
                                          + std::to_string(CUBLAS_VER_MAJOR));
  BlasLt found{};
  library.find("cublasLtCreate", found.create);
  library.find("cublasLtDestroy", found.destroy);
  library.find("cublasLtGetVersion", found.version);
  library.find("cublasLtGetStatusString", found.status_text);
  library.find("cublasLtMatmulDescCreate", found.make_desc);
  library.find("cublasLtMatmulDescDestroy", found.end_desc);
  library.find("cublasLtMatmulDescSetAttribute", found.set_desc);
  library.find("cublasLtMatrixLayoutCreate", found.make_layout);
  library.find("cublasLtMatrixLayoutDestroy", found.end_layout);
  library.find("cublasLtMatmulPreferenceCreate", found.make_preference);
  library.find("cublasLtMatmulPreferenceDestroy", found.end_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", found.set_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", found.heuristic);
  library.find("cublasLtMatmul", found.matmul);
  return found;
}

const BlasLt& blas() {
  static const BlasLt loaded = load();
  return loaded;
}

void check(cublasStatus_t status, const CudaPlace& place) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(place, std::string("cuBLASLt: ") + blas().status_text(status));
}

cudaDataType_t type_of(CudaElement element) {
  return element == CudaElement::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasLtEpilogue_t epilogue_of(MatmulEpilogue epilogue) {
  switch (epilogue) {
    case MatmulEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulEpilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case MatmulEpilogue::relu_bias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case MatmulEpilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_bias(MatmulEpilogue epilogue) {
  return epilogue == MatmulEpilogue::bias
         || epilogue == MatmulEpilogue::relu_bias;
}

/// Ends what a plan or a search holds.
struct EndDesc {
  void operator()(cublasLtMatmulDesc_t desc) const { blas().end_desc(desc); }
};
struct EndLayout {
  void operator()(cublasLtMatrixLayout_t layout) const {
    blas().end_layout(layout);
  }
};
struct EndPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    blas().end_preference(preference);
  }
};
template <class Pointer, class End>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, End>;
using Layout = Owned<cublasLtMatrixLayout_t, EndLayout>;

Layout make_layout(CudaElement element, uint64_t rows, uint64_t columns,
                   const CudaPlace& place) {
  cublasLtMatrixLayout_t made = nullptr;
  // Row-major [rows, columns] is column-major [columns, rows].
  check(blas().make_layout(&made, type_of(element), columns, rows,
                           static_cast<int64_t>(columns)),
        place);
  return Layout(made);
}

} // namespace

struct CudaMatmul::Plan {
  Owned<cublasLtMatmulDesc_t, EndDesc> desc;
  Layout a;
  Layout b;
  Layout c;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
  bool found = false;
};

CudaMatmul::CudaMatmul(CudaContext& context) : context_(context) {
  check(blas().create(&handle_), context.place("starting cuBLASLt"));
}

CudaMatmul::~CudaMatmul() {
  plans_.clear();
  blas().destroy(handle_);
}

// The library is column-major: it computes the transposed product, whose first
// operand is b.
CudaMatmul::Plan CudaMatmul::make_plan(const MatmulShape& shape,
                                       const CudaPlace& place) {
  Plan plan;
  cublasLtMatmulDesc_t desc = nullptr;
  check(blas().make_desc(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), place);
  plan.desc.reset(desc);
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(blas().set_desc(desc, attribute, &value, sizeof value), place);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA,
      shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB,
      shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape.epilogue));
  if (has_bias(shape.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<int32_t>(type_of(shape.result)));
    // Any address will do for the search.
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(context_.workspace()));
  }
  const auto& s = shape;
  plan.a = s.transpose_a ? make_layout(s.operands, s.k, s.m, place)
                         : make_layout(s.operands, s.m, s.k, place);
  plan.b = s.transpose_b ? make_layout(s.operands, s.n, s.k, place)
                         : make_layout(s.operands, s.k, s.n, place);
  plan.c = make_layout(s.result, s.m, s.n, place);
  cublasLtMatmulPreference_t made = nullptr;
  check(blas().make_preference(&made), place);
  const Owned<cublasLtMatmulPreference_t, EndPreference> preference(made);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                    auto value) {
    check(blas().set_preference(made, attribute, &value, sizeof value), place);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         uint64_t{CudaContext::workspace_bytes});
  // Split sums are added up by a kernel of their own, in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (auto alignment : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(alignment, uint32_t{64}); // as OpArgs promises
  std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
  int count = 0;
  const auto status = blas().heuristic(handle_, desc, plan.b.get(),
                                       plan.a.get(), plan.c.get(), plan.c.get(),
                                       made, static_cast<int>(results.size()),
                                       results.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
    check(status, place);
  for (int i = 0; i < count && !plan.found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS
        && results[i].workspaceSize <= CudaContext::workspace_bytes) {
      plan.algorithm = results[i].algo;
      plan.workspace = results[i].workspaceSize;
      plan.found = true;
    }
  return plan;
}

const CudaMatmul::Plan& CudaMatmul::plan_of(const MatmulShape& shape,
                                            const std::string& op) {
  auto at = plans_.find(shape);
  if (at == plans_.end())
    at = plans_.emplace(shape, make_plan(shape, context_.place(op))).first;
  return at->second;
}

bool CudaMatmul::has(const MatmulShape& shape, const std::string& op) {
  return plan_of(shape, op).found;
}

void CudaMatmul::run(const MatmulShape& shape, const void* a, const void* b,
                     void* c, const void* bias, const std::string& op) {
  const auto& plan = plan_of(shape, op);
  const auto place = context_.place(op);
  if (!plan.found) {
    require(shape.epilogue == MatmulEpilogue::none,
            "an epilogue that the library lacks");
    cuda::plain_product(shape, a, b, c, context_.stream());
    check(cudaGetLastError(), place);
    return;
  }
  if (has_bias(shape.epilogue))
    check(blas().set_desc(plan.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                          &bias, sizeof bias),
          place);
  const float one = 1;
  const float beta = shape.accumulate ? 1 : 0;
  check(blas().matmul(handle_, plan.desc.get(), &one, b, plan.b.get(), a,
                      plan.a.get(), &beta, c, plan.c.get(), c, plan.c.get(),
                      &plan.algorithm, context_.workspace(), plan.workspace,
                      context_.stream()),
        place);
}

std::string blas_version() {
  const auto version = blas().version();
  return std::to_string(version / 10000) + "."
         + std::to_string(version / 100 % 100) + "."
         + std::to_string(version % 100);
}

} // namespace troupe::kernels

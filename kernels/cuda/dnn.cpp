#include "kernels/cuda/dnn.cuh"

#include "kernels/base/error.hpp"
#include "kernels/cuda/library.cuh"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

struct Functions {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_text;
  decltype(&cudnnBackendCreateDescriptor) make;
  decltype(&cudnnBackendDestroyDescriptor) end;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finish;
  decltype(&cudnnBackendExecute) execute;
};

Functions load() {
  // cuDNN asks for these by name; in a Python environment they lie elsewhere.
  CudaLibrary::prepare("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  CudaLibrary::prepare("libnvrtc.so." + std::to_string(CUBLAS_VER_MAJOR));
  const CudaLibrary library("cuDNN",
                            "libcudnn.so." + std::to_string(CUDNN_MAJOR));
  Functions found{};
  library.find("cudnnGetVersion", found.version);
  library.find("cudnnCreate", found.create);
  library.find("cudnnDestroy", found.destroy);
  library.find("cudnnSetStream", found.set_stream);
  library.find("cudnnGetErrorString", found.error_text);
  library.find("cudnnBackendCreateDescriptor", found.make);
  library.find("cudnnBackendDestroyDescriptor", found.end);
  library.find("cudnnBackendSetAttribute", found.set);
  library.find("cudnnBackendGetAttribute", found.get);
  library.find("cudnnBackendFinalize", found.finish);
  library.find("cudnnBackendExecute", found.execute);
  return found;
}

const Functions& dnn() {
  static const Functions loaded = load();
  return loaded;
}

void check(cudnnStatus_t status, const CudaPlace& place) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail(place, std::string("cuDNN: ") + dnn().error_text(status));
}

/// One of the library's descriptors.
class Descriptor {
public:
  Descriptor() = default;
  Descriptor(cudnnBackendDescriptorType_t type, const CudaPlace& place) {
    check(dnn().make(type, &made_), place);
  }
  Descriptor(Descriptor&& other) noexcept
    : made_(std::exchange(other.made_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~Descriptor() {
    if (made_ != nullptr)
      dnn().end(made_);
  }

  cudnnBackendDescriptor_t get() const { return made_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const T* values, int64_t count, const CudaPlace& place) {
    check(dnn().set(made_, name, type, count, values), place);
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const T& value, const CudaPlace& place) {
    set(name, type, &value, 1, place);
  }
  void link(cudnnBackendAttributeName_t name, const Descriptor& other,
            const CudaPlace& place) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.made_, place);
  }
  void finish(const CudaPlace& place) { check(dnn().finish(made_), place); }

private:
  cudnnBackendDescriptor_t made_ = nullptr;
};

enum Uid : int64_t { uid_x = 1, uid_w, uid_y };

cudnnDataType_t type_of(CudaElement element) {
  return element == CudaElement::bfloat16 ? CUDNN_DATA_BFLOAT16
                                          : CUDNN_DATA_FLOAT;
}

/// A tensor of extents [n, c, h, w] that lies [n, h, w, c].
Descriptor tensor(Uid uid, CudaElement element, std::array<int64_t, 4> extents,
                  const CudaPlace& place) {
  const auto [n, c, h, w] = extents;
  const std::array<int64_t, 4> strides = {h * w * c, 1, w * c, c};
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, place);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(element),
           place);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, extents.data(), 4,
           place);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), 4,
           place);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64,
           static_cast<int64_t>(uid), place);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{64},
           place);
  made.finish(place);
  return made;
}

Descriptor convolution(const ConvolutionShape& s, const CudaPlace& place) {
  const std::array<int64_t, 2> ones = {1, 1};
  const std::array<int64_t, 2> strides = {s.stride, s.stride};
  const std::array<int64_t, 2> padding = {s.padding, s.padding};
  Descriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, place);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2},
           place);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
           CUDNN_DATA_FLOAT, place);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           CUDNN_CROSS_CORRELATION, place);
  made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, ones.data(), 2,
           place);
  made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
           strides.data(), 2, place);
  made.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
           padding.data(), 2, place);
  // What lies beyond the last window is left out by the output's extents.
  made.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
           padding.data(), 2, place);
  made.finish(place);
  return made;
}

/// The attributes of each pass's operation.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, w, x, y;
};

OperationNames names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionPass::weight_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    case ConvolutionPass::forward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
}

Descriptor graph_of(const ConvolutionShape& s, cudnnHandle_t handle,
                    const CudaPlace& place) {
  const auto x = tensor(uid_x, s.element,
                        {s.rows, s.channels, s.height, s.width}, place);
  const auto w = tensor(uid_w, s.element,
                        {s.units, s.channels / s.groups, s.kernel, s.kernel},
                        place);
  const auto y = tensor(uid_y, s.element, {s.rows, s.units, s.high, s.wide},
                        place);
  const auto rule = convolution(s, place);
  const auto names = names_of(s.pass);
  Descriptor operation(names.type, place);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f, place);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f, place);
  operation.link(names.convolution, rule, place);
  operation.link(names.w, w, place);
  operation.link(names.x, x, place);
  operation.link(names.y, y, place);
  operation.finish(place);
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, place);
  graph.link(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation, place);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle, place);
  graph.finish(place);
  return graph;
}

std::vector<Descriptor> engines_for(const Descriptor& graph,
                                    cudnnBackendHeurMode_t mode,
                                    const CudaPlace& place) {
  Descriptor search(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, place);
  search.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, place);
  search.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode, place);
  // Nothing found is no error: the caller has kernels of its own.
  if (dnn().finish(search.get()) != CUDNN_STATUS_SUCCESS)
    return {};
  int64_t count = 0;
  if (dnn().get(search.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr)
        != CUDNN_STATUS_SUCCESS
      || count <= 0)
    return {};
  std::vector<Descriptor> engines;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, place);
    raw.push_back(engines.back().get());
  }
  int64_t found = 0;
  if (dnn().get(search.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &found, raw.data())
      != CUDNN_STATUS_SUCCESS)
    return {};
  engines.resize(static_cast<size_t>(std::min(found, count)));
  return engines;
}

/// Tells whether an engine computes what is asked for: see CudaDnn.
bool is_exact(const Descriptor& config, CudaElement element,
              const CudaPlace& place) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, place);
  auto raw = engine.get();
  int64_t count = 0;
  if (dnn().get(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw)
      != CUDNN_STATUS_SUCCESS)
    return false;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>
    notes{};
  if (dnn().get(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                CUDNN_TYPE_NUMERICAL_NOTE, static_cast<int64_t>(notes.size()),
                &count, notes.data())
      != CUDNN_STATUS_SUCCESS)
    return false;
  for (int64_t i = 0; i < count; ++i) {
    const auto note = notes[static_cast<size_t>(i)];
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
        || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
      return false;
    const bool changes = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE
                         || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
                         || note == CUDNN_NUMERICAL_NOTE_FFT
                         || note == CUDNN_NUMERICAL_NOTE_WINOGRAD
                         || note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4
                         || note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6
                         || note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (changes && element == CudaElement::float32)
      return false;
  }
  return true;
}

} // namespace

struct CudaDnn::Library {
  cudnnHandle_t handle = nullptr;
};

struct CudaDnn::Plan {
  Descriptor plan;
  bool found = false;
};

CudaDnn::CudaDnn(CudaContext& context)
  : context_(context), library_(std::make_unique<Library>()) {
  const auto place = context.place("starting cuDNN");
  check(dnn().create(&library_->handle), place);
  check(dnn().set_stream(library_->handle, context.stream()), place);
}

CudaDnn::~CudaDnn() {
  plans_.clear();
  dnn().destroy(library_->handle);
}

const CudaDnn::Plan& CudaDnn::plan_of(const ConvolutionShape& shape,
                                      const std::string& op) {
  if (auto at = plans_.find(shape); at != plans_.end())
    return at->second;
  const auto place = context_.place(op);
  const auto graph = graph_of(shape, library_->handle, place);
  auto& plan = plans_[shape];
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const auto& engine : engines_for(graph, mode, place)) {
      if (!is_exact(engine, shape.element, place))
        continue;
      Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, place);
      made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
               library_->handle, place);
      made.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine, place);
      if (dnn().finish(made.get()) != CUDNN_STATUS_SUCCESS)
        continue; // not for this GPU
      int64_t bytes = 0;
      int64_t count = 0;
      check(dnn().get(made.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                      CUDNN_TYPE_INT64, 1, &count, &bytes),
            place);
      if (bytes > static_cast<int64_t>(CudaContext::workspace_bytes))
        continue;
      plan.plan = std::move(made);
      plan.found = true;
      return plan;
    }
  return plan;
}

bool CudaDnn::has(const ConvolutionShape& shape, const std::string& op) {
  return plan_of(shape, op).found;
}

void CudaDnn::run(const ConvolutionShape& shape, const void* x, const void* w,
                  const void* y, const std::string& op) {
  const auto& plan = plan_of(shape, op);
  const auto place = context_.place(op);
  if (!plan.found)
    fail(place, "cuDNN has no engine for this convolution");
  const std::array<int64_t, 3> uids = {uid_x, uid_w, uid_y};
  const std::array<const void*, 3> values = {x, w, y};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, place);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.data(), 3,
           place);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           values.data(), 3, place);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
           context_.workspace(), place);
  pack.finish(place);
  check(dnn().execute(library_->handle, plan.plan.get(), pack.get()), place);
}

std::string dnn_version() try {
  const auto version = dnn().version();
  return "cuDNN " + std::to_string(version / 10000) + "."
         + std::to_string(version / 100 % 100) + "."
         + std::to_string(version % 100);
} catch (const InputError&) {
  return "no cuDNN";
}

} // namespace troupe::kernels

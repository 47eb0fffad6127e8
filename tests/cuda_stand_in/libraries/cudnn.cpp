#include "tests/cuda_stand_in/include/cudnn.h"

#include "tests/cuda_stand_in/include/cuda_bf16.h"
#include "tests/cuda_stand_in/include/cuda_stand_in.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

// cuDNN as loops, for the graphs of one convolution that dnn.cpp makes. A
// descriptor holds what is set; what it means is looked at when it is finished.

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

struct Node {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, std::vector<char>> values;
  std::map<int, std::shared_ptr<const Node>> links;
  int engine = 0; ///< of an engine or its configuration: which

  template <class T>
  T get(cudnnBackendAttributeName_t name, size_t i = 0) const {
    T x{};
    const auto found = values.find(name);
    if (found != values.end() && found->second.size() >= (i + 1) * sizeof(T))
      memcpy(&x, found->second.data() + i * sizeof(T), sizeof(T));
    return x;
  }
  const Node* link(cudnnBackendAttributeName_t name) const {
    const auto found = links.find(name);
    return found == links.end() ? nullptr : found->second.get();
  }
};

/// What a descriptor's pointer points to. What another one links stays.
using Handle = std::shared_ptr<Node>;

Node& node(cudnnBackendDescriptor_t one) {
  return **static_cast<Handle*>(one);
}

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

struct Tensor {
  bool half = false;
  std::array<int64_t, 4> extents{}; ///< n, c, h, w
  int64_t uid = 0;
  int64_t alignment = 0;
  bool dense = false; ///< as [n, h, w, c]

  size_t count() const {
    return static_cast<size_t>(extents[0] * extents[1] * extents[2]
                               * extents[3]);
  }
};

Tensor tensor_of(const Node* at) {
  Tensor t;
  if (at == nullptr || at->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR
      || !at->finished)
    return t;
  t.half = at->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)
           == CUDNN_DATA_BFLOAT16;
  std::array<int64_t, 4> strides{};
  for (size_t i = 0; i < 4; ++i) {
    t.extents[i] = at->get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
    strides[i] = at->get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
  }
  const auto [n, c, h, w] = t.extents;
  t.dense = n > 0 && strides == std::array<int64_t, 4>{h * w * c, 1, w * c, c};
  t.uid = at->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = at->get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  return t;
}

enum class Pass { forward, data, filter };

struct Convolution {
  Pass pass = Pass::forward;
  Tensor x, w, y;
  int64_t stride = 1;
  int64_t padding = 0;
  bool known = false;
};

Convolution convolution_of(const Node* operation) {
  Convolution c;
  if (operation == nullptr || !operation->finished)
    return c;
  struct Names {
    cudnnBackendAttributeName_t alpha, beta, rule, w, x, y;
  };
  static const std::map<int, std::pair<Pass, Names>> every = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {Pass::forward,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {Pass::data,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {Pass::filter,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}}}};
  const auto found = every.find(operation->type);
  if (found == every.end())
    return c;
  const auto& [pass, names] = found->second;
  const auto* rule = operation->link(names.rule);
  if (rule == nullptr || !rule->finished
      || operation->get<float>(names.alpha) != 1
      || operation->get<float>(names.beta) != 0)
    return c;
  c.pass = pass;
  c.x = tensor_of(operation->link(names.x));
  c.w = tensor_of(operation->link(names.w));
  c.y = tensor_of(operation->link(names.y));
  auto both = [&](cudnnBackendAttributeName_t name) {
    const auto a = rule->get<int64_t>(name, 0);
    return a == rule->get<int64_t>(name, 1) ? a : int64_t{-1};
  };
  c.stride = both(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  c.padding = both(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const bool plain =
    rule->get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2
    && both(CUDNN_ATTR_CONVOLUTION_DILATIONS) == 1
    && both(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) == c.padding
    && rule->get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE)
         == CUDNN_CROSS_CORRELATION;
  const auto channels = c.x.extents[1];
  const auto inner = c.w.extents[1];
  auto places = [&](size_t i) {
    return (c.x.extents[i] + 2 * c.padding - c.w.extents[i]) / c.stride + 1;
  };
  c.known = plain && c.x.dense && c.w.dense && c.y.dense && c.stride > 0
            && c.padding >= 0 && c.x.half == c.w.half && c.x.half == c.y.half
            && channels % inner == 0 && c.w.extents[0] % (channels / inner) == 0
            && c.y.extents[0] == c.x.extents[0]
            && c.y.extents[1] == c.w.extents[0] && c.y.extents[2] == places(2)
            && c.y.extents[3] == places(3);
  return c;
}

std::vector<float> read(const void* at, const Tensor& t) {
  std::vector<float> values(t.count());
  cuda_stand_in::will_read(at, t.count() * (t.half ? 2 : 4));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = t.half
                  ? __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i])
                  : static_cast<const float*>(at)[i];
  return values;
}

void write(void* at, const Tensor& t, const std::vector<float>& values) {
  cuda_stand_in::will_write(at, t.count() * (t.half ? 2 : 4));
  for (size_t i = 0; i < values.size(); ++i)
    if (t.half)
      static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(values[i]);
    else
      static_cast<float*>(at)[i] = values[i];
}

/// Calls f(x's pixel, y's pixel, the weights' place) for all that meet.
template <class F>
void each_meeting(const Convolution& s, const F& f) {
  const auto [rows, channels, height, width] = s.x.extents;
  const auto [n, units, high, wide] = s.y.extents;
  const auto kernel_high = s.w.extents[2];
  const auto kernel_wide = s.w.extents[3];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t a = 0; a < high; ++a)
      for (int64_t b = 0; b < wide; ++b)
        for (int64_t p = 0; p < kernel_high; ++p)
          for (int64_t q = 0; q < kernel_wide; ++q) {
            const auto h = a * s.stride + p - s.padding;
            const auto v = b * s.stride + q - s.padding;
            if (h >= 0 && h < height && v >= 0 && v < width)
              f((row * height + h) * width + v, (row * high + a) * wide + b,
                p * kernel_wide + q);
          }
}

// The library's weights are [units, places, inner]; units lie last here, so
// that the loops over them are short code.
struct Loops {
  Convolution s;
  int64_t inner, units, groups, places;

  explicit Loops(const Convolution& given)
    : s(given),
      inner(s.w.extents[1]),
      units(s.w.extents[0]),
      groups(s.x.extents[1] / inner),
      places(s.w.extents[2] * s.w.extents[3]) {}

  std::vector<float> turned(const std::vector<float>& w, bool back) const {
    std::vector<float> result(w.size());
    for (int64_t u = 0; u < units; ++u)
      for (int64_t i = 0; i < places * inner; ++i) {
        const auto theirs = static_cast<size_t>(u * places * inner + i);
        const auto ours = static_cast<size_t>(i * units + u);
        result[back ? theirs : ours] = w[back ? ours : theirs];
      }
    return result;
  }

  void run(void* x, void* w, void* y) const {
    const auto each = units / groups;
    if (s.pass == Pass::forward) {
      const auto in = read(x, s.x);
      const auto weights = turned(read(w, s.w), false);
      std::vector<float> out(s.y.count());
      each_meeting(s, [&](int64_t from, int64_t to, int64_t place) {
        for (int64_t c = 0; c < inner * groups; ++c) {
          const auto first = c / inner * each;
          const auto* row = weights.data() + (place * inner + c % inner) * units
                            + first;
          const auto factor =
            in[static_cast<size_t>(from * inner * groups + c)];
          auto* sum = out.data() + to * units + first;
          for (int64_t u = 0; u < each; ++u)
            sum[u] += factor * row[u];
        }
      });
      write(y, s.y, out);
    } else if (s.pass == Pass::data) {
      const auto d = read(y, s.y);
      const auto weights = turned(read(w, s.w), false);
      std::vector<float> gradient(s.x.count());
      each_meeting(s, [&](int64_t to, int64_t from, int64_t place) {
        for (int64_t c = 0; c < inner * groups; ++c) {
          const auto first = c / inner * each;
          const auto* row = weights.data() + (place * inner + c % inner) * units
                            + first;
          const auto* given = d.data() + from * units + first;
          float sum = 0;
          for (int64_t u = 0; u < each; ++u)
            sum += given[u] * row[u];
          gradient[static_cast<size_t>(to * inner * groups + c)] += sum;
        }
      });
      write(x, s.x, gradient);
    } else {
      const auto in = read(x, s.x);
      const auto d = read(y, s.y);
      std::vector<float> gradient(s.w.count());
      each_meeting(s, [&](int64_t from, int64_t of, int64_t place) {
        for (int64_t c = 0; c < inner * groups; ++c) {
          const auto first = c / inner * each;
          auto* row = gradient.data() + (place * inner + c % inner) * units
                      + first;
          const auto factor =
            in[static_cast<size_t>(from * inner * groups + c)];
          const auto* given = d.data() + of * units + first;
          for (int64_t u = 0; u < each; ++u)
            row[u] += factor * given[u];
        }
      });
      write(w, s.w, turned(gradient, true));
    }
  }
};

// The engines that a search finds, in this order: two that the product is not
// to take for float32, whose execution fails the test, and one that it is.
constexpr int engines = 3;
constexpr int64_t workspace_bytes = 4096;

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine) {
  if (engine == 0)
    return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == 1)
    return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
            CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
  return {};
}

const Node* graph_of(const Node& plan) {
  const auto* engine = plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return engine == nullptr
           ? nullptr
           : engine->link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

Convolution of_graph(const Node* graph) {
  return graph == nullptr
           ? Convolution{}
           : convolution_of(graph->link(CUDNN_ATTR_OPERATIONGRAPH_OPS));
}

} // namespace

cudnnStatus_t cudnnCreate(cudnnHandle_t* made) {
  *made = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion() {
  return 90100;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "an unknown status";
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  auto one = std::make_shared<Node>();
  one->type = type;
  *made = new Handle(std::move(one));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t one) {
  delete static_cast<Handle*>(one);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t one,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void* values) {
  auto& own = node(one);
  if (own.finished)
    return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    cudnnBackendDescriptor_t other = nullptr;
    memcpy(&other, values, sizeof other);
    if (count != 1 || !node(other).finished)
      return CUDNN_STATUS_BAD_PARAM;
    own.links[name] = *static_cast<Handle*>(other);
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const char*>(values);
  own.values[name].assign(bytes,
                          bytes + static_cast<size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t one,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t,
                                       int64_t wanted, int64_t* count,
                                       void* values) {
  const auto& own = node(one);
  if (!own.finished)
    return CUDNN_STATUS_BAD_PARAM;
  auto* others = static_cast<cudnnBackendDescriptor_t*>(values);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = engines;
      for (int i = 0; i < std::min<int64_t>(engines, wanted); ++i) {
        auto& config = node(others[i]);
        config.engine = i;
        config.finished = true;
        config.links = own.links;
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      node(others[0]).engine = own.engine;
      node(others[0]).finished = true;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto notes = notes_of(own.engine);
      *count = static_cast<int64_t>(notes.size());
      std::copy_n(notes.begin(), std::min(wanted, *count),
                  static_cast<cudnnBackendNumericalNote_t*>(values));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *count = 1;
      *static_cast<int64_t*>(values) = workspace_bytes;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t one) {
  auto& own = node(one);
  if (own.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    if (cuda_stand_in::libraries() != "full"
        || !of_graph(own.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)).known)
      return CUDNN_STATUS_NOT_SUPPORTED;
  } else if (own.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    if (!of_graph(graph_of(own)).known)
      return CUDNN_STATUS_BAD_PARAM;
  }
  own.finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const auto& own = node(plan);
  const auto& given = node(pack);
  const auto convolution = of_graph(graph_of(own));
  if (!own.finished || !given.finished || !convolution.known)
    return CUDNN_STATUS_BAD_PARAM;
  const auto engine = own.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine;
  if (engine == 0 || (engine == 1 && !convolution.x.half))
    return CUDNN_STATUS_EXECUTION_FAILED;
  std::array<void*, 3> at{};
  const std::array<const Tensor*, 3> tensors = {&convolution.x, &convolution.w,
                                                &convolution.y};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 3; ++k)
      if (given.get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, k)
          == tensors[i]->uid)
        at[i] = given.get<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, k);
    if (at[i] == nullptr || tensors[i]->alignment <= 0
        || reinterpret_cast<uintptr_t>(at[i])
               % static_cast<uintptr_t>(tensors[i]->alignment)
             != 0)
      return CUDNN_STATUS_BAD_PARAM;
  }
  auto* workspace = given.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto status = cuda_stand_in::enqueue(
    handle->stream, "cudnnBackendExecute", [convolution, at, workspace] {
      cuda_stand_in::will_write(workspace, workspace_bytes);
      Loops(convolution).run(at[0], at[1], at[2]);
    });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS
                               : CUDNN_STATUS_EXECUTION_FAILED;
}

#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/cuda/status.cuh"
#include "kernels/error.hpp"
#include "kernels/require.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe {

uint32_t cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError(); // no driver or no GPU: not an error of later calls
    return 0;
  }
  return static_cast<uint32_t>(count);
}

namespace kernels {

namespace {

/// A stream with its cuBLAS handle. Its own workspace: with a shared one,
/// cuBLAS may pick other algorithms, and so other bits, in other calls.
class CudaStream {
public:
  explicit CudaStream(const CudaPlace& place)
    : workspace_(CudaArray<char>::Where::device, workspace_bytes, place) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), place);
    try {
      check(blas().create(&blas_), place);
      check(blas().set_stream(blas_, stream_), place);
      check(blas().set_workspace(blas_, workspace_.data(), workspace_bytes),
            place);
      check(blas().set_math_mode(blas_, CUBLAS_PEDANTIC_MATH), place);
      check(blas().set_atomics_mode(blas_, CUBLAS_ATOMICS_NOT_ALLOWED), place);
    } catch (...) {
      release();
      throw;
    }
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { release(); }

  cudaStream_t get() const { return stream_; }
  cublasHandle_t blas_handle() const { return blas_; }

private:
  static constexpr size_t workspace_bytes = size_t{32} << 20;

  void release() {
    if (blas_ != nullptr)
      blas().destroy(blas_);
    cudaStreamDestroy(stream_);
  }

  CudaArray<char> workspace_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

/// A dense operator with the place of its values.
struct CudaLayer {
  std::string name;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  uint64_t weight = 0; ///< offset in the flat buffer
  uint64_t bias = 0;   ///< offset in the flat buffer
  bool relu = false;
  CudaArray<float> output; ///< [max_rows, outputs]
};

/// Makes a device current for the time of a call, whatever thread calls.
class CurrentDevice {
public:
  explicit CurrentDevice(uint32_t index) {
    CudaPlace place{index, "choosing the device"};
    check(cudaGetDevice(&kept_), place);
    check(cudaSetDevice(static_cast<int>(index)), place);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(kept_); }

private:
  int kept_ = 0;
};

class CudaReplica final : public Replica {
public:
  CudaReplica(const Graph& graph, uint32_t index, uint32_t max_rows)
    : index_(index),
      max_rows_(max_rows),
      features_(graph.features),
      classes_(graph.classes),
      layout_(graph) {
    require(max_rows > 0, "a replica for no rows");
    for (const auto& parameter : graph.parameters)
      sizes_.push_back(parameter.size());
    CurrentDevice current(index_);
    auto place = at("allocating");
    stream_ = std::make_unique<CudaStream>(place);
    uint32_t widest = 0;
    for (const auto& op : graph.ops) {
      if (op.kind != OpKind::dense)
        continue;
      require(op.input == layers_.size(), "the graph is not a chain");
      const auto& shape = graph.parameters[op.weight].shape;
      CudaLayer layer;
      layer.name = op.name;
      layer.inputs = static_cast<uint32_t>(shape[0]);
      layer.outputs = static_cast<uint32_t>(shape[1]);
      layer.weight = layout_.offsets[op.weight];
      layer.bias = layout_.offsets[op.bias];
      layer.relu = op.activation == Activation::relu;
      layer.output = device(size_t{max_rows} * layer.outputs);
      widest = std::max(widest, layer.outputs);
      layers_.push_back(std::move(layer));
    }
    require(!layers_.empty(), "a graph without a dense operator");
    for (auto& delta : deltas_)
      delta = device(size_t{max_rows} * widest);
    parameters_ = device(layout_.total);
    gradient_ = device(layout_.total);
    input_ = device(size_t{max_rows} * features_);
    labels_ = {CudaArray<int32_t>::Where::device, max_rows, place};
    results_ = {CudaArray<cuda::LossRow>::Where::device, max_rows, place};
    staged_flat_ = {CudaArray<float>::Where::pinned, layout_.total, place};
    staged_input_ = {CudaArray<float>::Where::pinned,
                     size_t{max_rows} * features_, place};
    staged_labels_ = {CudaArray<int32_t>::Where::pinned, max_rows, place};
    staged_results_ = {CudaArray<cuda::LossRow>::Where::pinned, max_rows,
                       place};
  }

  ~CudaReplica() override {
    // Memory must outlive what still runs on it.
    int kept = 0;
    cudaGetDevice(&kept);
    cudaSetDevice(static_cast<int>(index_));
    cudaStreamSynchronize(stream_->get());
    cudaSetDevice(kept);
  }

  LeafStats gradient(const float* parameters, Batch batch,
                     float* gradient) override {
    require(batch.labels != nullptr, "a gradient without labels");
    CurrentDevice current(index_);
    forward(parameters, batch);
    loss(batch, deltas_[0].data());
    backward(batch.rows);
    auto place = at("copying the gradient");
    check(cudaMemcpyAsync(staged_flat_.data(), gradient_.data(),
                          layout_.total * sizeof(float), cudaMemcpyDeviceToHost,
                          stream_->get()),
          place);
    check(cudaStreamSynchronize(stream_->get()), place);
    // Parameter by parameter: the gaps are left alone.
    for (size_t i = 0; i < sizes_.size(); ++i)
      std::memcpy(gradient + layout_.offsets[i],
                  staged_flat_.data() + layout_.offsets[i],
                  sizes_[i] * sizeof(float));
    return stats(batch);
  }

  LeafStats evaluate(const float* parameters, Batch batch,
                     int32_t* predictions) override {
    CurrentDevice current(index_);
    forward(parameters, batch);
    loss(batch, nullptr);
    check(cudaStreamSynchronize(stream_->get()), at("evaluating"));
    if (predictions != nullptr)
      for (uint32_t row = 0; row < batch.rows; ++row)
        predictions[row] = staged_results_.data()[row].best;
    return stats(batch);
  }

private:
  enum class Side { as_is, transposed };

  CudaPlace at(std::string op) const { return {index_, std::move(op)}; }

  CudaArray<float> device(size_t count) const {
    return {CudaArray<float>::Where::device, count, at("allocating")};
  }

  template <class T>
  void upload(const T* from, CudaArray<T>& staged, CudaArray<T>& to,
              size_t count, const CudaPlace& place) {
    std::memcpy(staged.data(), from, count * sizeof(T));
    check(cudaMemcpyAsync(to.data(), staged.data(), count * sizeof(T),
                          cudaMemcpyHostToDevice, stream_->get()),
          place);
  }

  /// c [m, n] = a [m, k] b [k, n], row-major; a transposed operand lies as
  /// [k, m] or [n, k]. cuBLAS counts by columns and so computes c^T = b^T a^T.
  void multiply(Side side_a, Side side_b, uint32_t m, uint32_t n, uint32_t k,
                const float* a, const float* b, float* c,
                const CudaPlace& place) {
    auto operation = [](Side side) {
      return side == Side::as_is ? CUBLAS_OP_N : CUBLAS_OP_T;
    };
    auto extent = [](uint32_t x) { return static_cast<int>(x); };
    const float one = 1;
    const float zero = 0;
    check(blas().sgemm(stream_->blas_handle(), operation(side_b),
                       operation(side_a), extent(n), extent(m), extent(k), &one,
                       b, extent(side_b == Side::as_is ? n : k), a,
                       extent(side_a == Side::as_is ? k : m), &zero, c,
                       extent(n)),
          place);
  }

  void forward(const float* parameters, const Batch& batch) {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    upload(parameters, staged_flat_, parameters_, layout_.total,
           at("copying the parameters"));
    upload(batch.features, staged_input_, input_,
           size_t{batch.rows} * features_, at("copying the batch"));
    const auto* input = input_.data();
    for (auto& layer : layers_) {
      auto place = at(layer.name + " forward");
      multiply(Side::as_is, Side::as_is, batch.rows, layer.outputs,
               layer.inputs, input, parameters_.data() + layer.weight,
               layer.output.data(), place);
      check(cuda::bias_forward(layer.output.data(),
                               parameters_.data() + layer.bias, batch.rows,
                               layer.outputs, layer.relu, stream_->get()),
            place);
      input = layer.output.data();
    }
  }

  /// Begins the loss; its results are staged once the stream gets there.
  void loss(const Batch& batch, float* gradient) {
    auto place = at("loss");
    if (batch.labels != nullptr) {
      for (uint32_t row = 0; row < batch.rows; ++row)
        require(static_cast<uint32_t>(batch.labels[row]) < classes_,
                "a label outside [0, classes)");
      upload(batch.labels, staged_labels_, labels_, batch.rows, place);
    }
    check(cuda::softmax_cross_entropy(
            layers_.back().output.data(),
            batch.labels != nullptr ? labels_.data() : nullptr, gradient,
            results_.data(), batch.rows, classes_, stream_->get()),
          place);
    check(cudaMemcpyAsync(staged_results_.data(), results_.data(),
                          batch.rows * sizeof(cuda::LossRow),
                          cudaMemcpyDeviceToHost, stream_->get()),
          place);
  }

  /// Takes the gradient of the logits from deltas_[0].
  void backward(uint32_t rows) {
    auto* delta = &deltas_[0];
    auto* next = &deltas_[1];
    for (auto i = layers_.size(); i-- > 0;) {
      auto& layer = layers_[i];
      auto place = at(layer.name + " backward");
      check(cuda::bias_backward(delta->data(),
                                layer.relu ? layer.output.data() : nullptr,
                                gradient_.data() + layer.bias, rows,
                                layer.outputs, stream_->get()),
            place);
      const auto* input = i == 0 ? input_.data() : layers_[i - 1].output.data();
      multiply(Side::transposed, Side::as_is, layer.inputs, layer.outputs, rows,
               input, delta->data(), gradient_.data() + layer.weight, place);
      if (i == 0)
        break; // nobody asks for the gradient of the input
      multiply(Side::as_is, Side::transposed, rows, layer.inputs, layer.outputs,
               delta->data(), parameters_.data() + layer.weight, next->data(),
               place);
      std::swap(delta, next);
    }
  }

  LeafStats stats(const Batch& batch) {
    LeafStats result;
    if (batch.labels == nullptr)
      return result;
    for (uint32_t row = 0; row < batch.rows; ++row) {
      const auto& of_row = staged_results_.data()[row];
      result.loss_sum += of_row.loss;
      result.correct += of_row.best == batch.labels[row];
    }
    return result;
  }

  uint32_t index_;
  uint32_t max_rows_;
  uint32_t features_;
  uint32_t classes_;
  Layout layout_;
  std::vector<uint64_t> sizes_; ///< elements per parameter
  std::unique_ptr<CudaStream> stream_;
  std::vector<CudaLayer> layers_;
  CudaArray<float> deltas_[2]; ///< [max_rows, widest output]
  CudaArray<float> parameters_;
  CudaArray<float> gradient_;
  CudaArray<float> input_; ///< [max_rows, features]
  CudaArray<int32_t> labels_;
  CudaArray<cuda::LossRow> results_;
  CudaArray<float> staged_flat_; ///< parameters on the way in, gradient out
  CudaArray<float> staged_input_;
  CudaArray<int32_t> staged_labels_;
  CudaArray<cuda::LossRow> staged_results_;
};

} // namespace

std::unique_ptr<Replica> make_cuda_replica(const Graph& graph, uint32_t index,
                                           uint32_t max_rows) {
  auto count = cuda_device_count();
  if (index >= count)
    throw InputError(
      "cuda:" + std::to_string(index) + ": "
      + (count == 0 ? std::string("no usable GPU or driver was found")
                    : "the machine has GPUs 0 to " + std::to_string(count - 1))
      + "; choose another device, e.g. cpu:1");
  return std::make_unique<CudaReplica>(graph, index, max_rows);
}

std::string cuda_versions() {
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return "CUDA of unknown version";
  auto text = "CUDA " + std::to_string(runtime / 1000) + "."
              + std::to_string(runtime % 1000 / 10);
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (cuda_device_count() > 0 // else cuBLAS takes part in nothing
      && blas().get_property(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS
      && blas().get_property(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS
      && blas().get_property(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS)
    text += ", cuBLAS " + std::to_string(major) + "." + std::to_string(minor)
            + "." + std::to_string(patch);
  return text;
}

} // namespace kernels

} // namespace troupe

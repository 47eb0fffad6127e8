#include "kernels/cuda/replica.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cuda/captured_pass.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_batch.cuh"
#include "kernels/cuda/dnn.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/engine/engine.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <cstring>

namespace troupe::kernels {

namespace {

using FloatArray = CudaArray<float>;

/// Parameters and gradient pass through pinned memory. What the pinned copy of
/// the parameters holds already is not sent again: several micro-batches of a
/// step read the same ones.
class CudaReplica final : public Replica {
public:
  CudaReplica(const Graph& graph, DeviceId device, uint32_t max_rows,
              Precision precision, CudaOptions options)
    : graph_(graph),
      layout_(graph),
      device_(device, precision),
      current_(std::make_unique<CurrentDevice>(device.index)),
      engine_(graph_, device_, max_rows),
      batch_(graph_, max_rows, device_.context()),
      parameters_(FloatArray::Where::device, layout_.total,
                  place("parameters")),
      gradient_(FloatArray::Where::device, layout_.total, place("gradient")),
      host_parameters_(FloatArray::Where::pinned, layout_.total,
                       place("parameters")),
      host_gradient_(FloatArray::Where::pinned, layout_.total,
                     place("gradient")),
      passes_(device_.context(), options.graphs) {
    check(cudaMemsetAsync(gradient_.data(), 0, layout_.total * sizeof(float),
                          stream()),
          place("gradient"));
    current_.reset();
  }

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    const CurrentDevice current(device_.context().index());
    if (batch.gate != nullptr)
      batch.gate->await_all(); // they go to the device in one piece
    send(parameters, batch);
    auto pass = batch_.pass(batch, {});
    pass.training = true;
    run(pass);
    check(cudaMemcpyAsync(host_gradient_.data(), gradient_.data(),
                          layout_.total * sizeof(float), cudaMemcpyDeviceToHost,
                          stream()),
          place("download of the gradient"));
    batch_.download(pass);
    device_.context().synchronize("a training pass");
    for (auto i : engine_.gradient_order()) {
      std::memcpy(gradient + layout_.offsets[i],
                  host_gradient_.data() + layout_.offsets[i],
                  graph_.parameters[i].size() * sizeof(float));
      if (ready)
        ready(i);
    }
    const auto totals = batch_.take(pass, {});
    return {totals.loss, totals.correct};
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    const CurrentDevice current(device_.context().index());
    send(parameters, batch);
    const auto pass = batch_.pass(batch, predictions);
    run(pass);
    batch_.download(pass);
    if (predictions.outputs != nullptr) // always at one place, replayed or not
      check(cudaMemcpyAsync(predictions.outputs, engine_.outputs(),
                            pass.rows * graph_.outputs() * sizeof(float),
                            cudaMemcpyDeviceToHost, stream()),
            place("download of what a model gives"));
    device_.context().synchronize("an evaluation");
    const auto totals = batch_.take(pass, predictions);
    return {totals.loss, totals.correct};
  }

  uint64_t memory_bytes() const override {
    return engine_.memory().total * sizeof(float);
  }

private:
  CudaPlace place(const char* what) { return device_.context().place(what); }
  cudaStream_t stream() { return device_.context().stream(); }

  void send(const float* parameters, const Batch& batch) {
    const auto bytes = layout_.total * sizeof(float);
    if (!sent_
        || std::memcmp(host_parameters_.data(), parameters, bytes) != 0) {
      std::memcpy(host_parameters_.data(), parameters, bytes);
      check(cudaMemcpyAsync(parameters_.data(), host_parameters_.data(), bytes,
                            cudaMemcpyHostToDevice, stream()),
            place("upload of the parameters"));
      sent_ = true;
    }
    batch_.upload(batch);
  }

  void run(Engine::Pass pass) {
    pass.parameters = parameters_.data();
    require(pass.exchange == nullptr, "a replica on a GPU has no peers");
    passes_.run({pass.rows, pass.training, pass.labels != nullptr,
                 pass.targets != nullptr, pass.classes != nullptr,
                 pass.step.rows, pass.step.leaves},
                [&] {
                  engine_.forward(pass);
                  if (pass.training)
                    engine_.backward(pass, gradient_.data());
                });
  }

  Graph graph_;
  Layout layout_;
  CudaDevice device_;
  std::unique_ptr<CurrentDevice> current_; ///< while the replica is made
  Engine engine_;
  DeviceBatch batch_;
  FloatArray parameters_;
  FloatArray gradient_;
  FloatArray host_parameters_;
  FloatArray host_gradient_;
  bool sent_ = false;
  CapturedPasses passes_;
};

} // namespace

std::unique_ptr<Replica>
make_cuda_replica(const Graph& graph, DeviceId device, uint32_t max_rows,
                  Precision precision, CudaOptions options) {
  return std::make_unique<CudaReplica>(graph, device, max_rows, precision,
                                       options);
}

std::string cuda_kind(uint32_t index) {
  if (index >= cuda_device_count())
    return {};
  int found[3] = {};
  size_t at = 0;
  for (auto asked :
       {cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
        cudaDevAttrMultiProcessorCount})
    check(cudaDeviceGetAttribute(&found[at++], asked, static_cast<int>(index)),
          {"cuda:" + std::to_string(index), "asking what it is"});
  return "sm_" + std::to_string(10 * found[0] + found[1]) + ", "
         + std::to_string(found[2]) + " multiprocessors";
}

std::string cuda_versions(bool with_dnn) {
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return "CUDA of unknown version";
  auto text = "CUDA " + cuda_version(runtime);
  if (cuda_device_count() > 0) // else the libraries take part in nothing
    text += ", cuBLASLt " + blas_version()
            + (with_dnn ? ", " + dnn_version() : "");
  return text;
}

} // namespace troupe::kernels

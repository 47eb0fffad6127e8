#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_batch.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/engine/engine_stage.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

namespace troupe::kernels {

namespace {

/// Device memory for the parameters of a part, or of several by turns, and for
/// what their passes give.
class Variables {
public:
  Variables(uint64_t elements, CudaContext& context)
    : elements_(elements), context_(context), parameters_(array()) {}

  float* parameters() { return parameters_.data(); }
  /// Each pass under way has one of its own.
  float* take_gradient() {
    if (free_.empty()) {
      gradients_.push_back(array());
      free_.push_back(gradients_.back().data());
    }
    auto* gradient = free_.back();
    free_.pop_back();
    return gradient;
  }
  void give_back(float* gradient) { free_.push_back(gradient); }

private:
  CudaArray<float> array() {
    const CurrentDevice current(context_.index());
    return {CudaArray<float>::Where::device, elements_,
            context_.place("variables of a stage")};
  }

  uint64_t elements_;
  CudaContext& context_;
  CudaArray<float> parameters_;
  std::vector<CudaArray<float>> gradients_;
  std::vector<float*> free_; ///< of those
};

/// What crosses goes up and comes down as it is asked for: the host's memory
/// is whoever's. Values that are kept in bfloat16 are float32 on the way, which
/// changes no bit.
class CudaStageDevice final : public StageDevice {
public:
  CudaStageDevice(const Graph& graph, const GraphPart& part,
                  std::shared_ptr<CudaContext> context,
                  std::shared_ptr<Variables> variables,
                  const StageOptions& options)
    : device_(std::move(context)),
      elements_(Layout(graph, part.parameters).total),
      variables_(std::move(variables)),
      keeps_(options.keeps_parameters),
      reads_features_(reads(graph, part, graph.features_value)),
      reads_ids_(reads(graph, part, graph.ids_value)),
      has_loss_(part.ops.end == graph.ops.size()),
      half_(half_values(graph, options.precision)) {
    for (const auto& sum : part.sums)
      require(half_[sum.value] == 0, "a sum over members in bfloat16");
    const CurrentDevice current(this->context().index());
    for (uint32_t i = 0; i < options.in_flight; ++i)
      slots_.push_back(
        {DeviceBatch(graph, reads_samples(graph, part) ? options.max_rows : 0,
                     this->context()),
         {}});
  }

  Device& device() override { return device_; }

  void enter() override {
    check(cudaSetDevice(static_cast<int>(context().index())),
          place("choosing the device"));
  }

  Engine::Pass take_batch(uint32_t at, const Batch& batch) override {
    auto read = batch;
    if (!reads_features_)
      read.features = nullptr;
    if (!reads_ids_)
      read.ids = nullptr;
    if (!has_loss_) {
      read.labels = nullptr;
      read.targets = nullptr;
    }
    auto& slot = slots_[at];
    slot.batch.upload(read);
    slot.pass = slot.batch.pass(read, {});
    slot.pass.loss_waits = false;
    return slot.pass;
  }

  const float* take_parameters(const float* parameters,
                               bool as_before) override {
    auto* there = variables_->parameters();
    if (!as_before || !keeps_)
      send(parameters, there, elements_);
    return there;
  }

  float* take_gradient(float*) override { return variables_->take_gradient(); }
  void give_back(float* gradient) override { variables_->give_back(gradient); }

  LossTotals totals(uint32_t at) override {
    auto& slot = slots_[at];
    slot.batch.download(slot.pass);
    context().synchronize("the loss of a stage");
    return slot.batch.take(slot.pass, {});
  }

  void send(const float* from, float* to, uint64_t count) override {
    copy(from, to, count, cudaMemcpyHostToDevice);
  }
  void fetch(const float* from, float* to, uint64_t count) override {
    copy(from, to, count, cudaMemcpyDeviceToHost);
  }

  void send_value(uint32_t value, const float* from, float* to,
                  uint64_t count) override {
    if (half_[value] == 0)
      return send(from, to, count);
    std::vector<uint16_t> halves(count);
    for (uint64_t i = 0; i < count; ++i)
      halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(from[i]) >> 16);
    device_.upload(halves.data(), to, count * sizeof(uint16_t));
  }
  void fetch_value(uint32_t value, const float* from, float* to,
                   uint64_t count) override {
    if (half_[value] == 0)
      return fetch(from, to, count);
    std::vector<uint16_t> halves(count);
    device_.download(from, halves.data(), count * sizeof(uint16_t));
    for (uint64_t i = 0; i < count; ++i)
      to[i] = std::bit_cast<float>(uint32_t{halves[i]} << 16);
  }

  std::span<float> show(float* sum, uint64_t count) override {
    shown_ = sum;
    if (sum_.size() < count)
      sum_ = Buffer{count};
    fetch(sum, sum_.data(), count);
    shown_count_ = count;
    return {sum_.data(), count};
  }
  void take_back() override { send(sum_.data(), shown_, shown_count_); }

  void end() override { context().synchronize("a pass of a stage"); }

private:
  struct Slot {
    DeviceBatch batch;
    Engine::Pass pass;
  };

  CudaContext& context() { return device_.context(); }
  CudaPlace place(const char* what) { return context().place(what); }

  void copy(const float* from, float* to, uint64_t count, cudaMemcpyKind kind) {
    if (count > 0)
      check(cudaMemcpyAsync(to, from, count * sizeof(float), kind,
                            context().stream()),
            place("bringing what a stage takes and gives"));
  }

  CudaDevice device_;
  uint64_t elements_; ///< of the parameters
  std::shared_ptr<Variables> variables_;
  bool keeps_;
  bool reads_features_;
  bool reads_ids_;
  bool has_loss_;
  std::vector<uint8_t> half_; ///< by value
  std::vector<Slot> slots_;
  Buffer sum_;             ///< a partial sum on the host
  float* shown_ = nullptr; ///< where it is on the device
  uint64_t shown_count_ = 0;
};

} // namespace

StageReplicas
make_cuda_stage_replicas(const Graph& graph,
                         const std::vector<GraphPart>& parts, DeviceId device,
                         const std::vector<StageOptions>& options) {
  const auto context = std::make_shared<CudaContext>(device,
                                                     options.front().precision);
  uint64_t most = 0;
  for (const auto& part : parts)
    most = std::max(most, Layout(graph, part.parameters).total);
  std::shared_ptr<Variables> shared;
  StageReplicas made;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool keeps = options[i].keeps_parameters;
    if (!keeps && !shared)
      shared = std::make_shared<Variables>(most, *context);
    const auto variables = keeps ? std::make_shared<Variables>(
                             Layout(graph, parts[i].parameters).total, *context)
                                 : shared;
    made.push_back(
      make_engine_stage(graph, parts[i], options[i],
                        std::make_unique<CudaStageDevice>(
                          graph, parts[i], context, variables, options[i])));
  }
  return made;
}

} // namespace troupe::kernels

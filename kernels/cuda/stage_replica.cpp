#include "kernels/base/buffer.hpp"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_batch.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/engine/engine_stage.hpp"

#include <bit>
#include <vector>

namespace troupe::kernels {

namespace {

std::vector<uint32_t> summed_values(const GraphPart& part) {
  std::vector<uint32_t> values;
  for (const auto& sum : part.sums)
    values.push_back(sum.value);
  return values;
}

/// What crosses goes up and comes down as it is asked for: the host's memory
/// is whoever's. Values that are kept in bfloat16 are float32 on the way, which
/// changes no bit.
class CudaStageDevice final : public StageDevice {
public:
  CudaStageDevice(const Graph& graph, const GraphPart& part,
                  std::shared_ptr<CudaContext> context,
                  const StageOptions& options)
    : device_(std::move(context)),
      elements_(Layout(graph, part.parameters).total),
      keeps_(options.keeps_parameters),
      reads_features_(reads(graph, part, graph.features_value)),
      reads_ids_(reads(graph, part, graph.ids_value)),
      has_loss_(part.ops.end == graph.ops.size()) {
    device_.keep_whole(summed_values(part));
    half_ = device_.half_of(graph);
    const bool reads_samples = reads_features_ || reads_ids_ || has_loss_;
    const CurrentDevice current(this->context().index());
    for (uint32_t i = 0; i < options.in_flight; ++i)
      slots_.push_back({DeviceBatch(graph, reads_samples ? options.max_rows : 0,
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
    if (parameters_.data() != nullptr && as_before)
      return parameters_.data();
    if (parameters_.data() == nullptr)
      parameters_ = array("parameters of a stage");
    send(parameters, parameters_.data(), elements_);
    return parameters_.data();
  }

  float* take_gradient(float*) override {
    if (free_.empty()) {
      gradients_.push_back(array("gradient of a stage"));
      free_.push_back(gradients_.back().data());
    }
    auto* gradient = free_.back();
    free_.pop_back();
    return gradient;
  }
  void give_back(float* gradient) override { free_.push_back(gradient); }

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

  void end(bool over) override {
    context().synchronize("a pass of a stage");
    if (!over || keeps_)
      return;
    parameters_ = {};
    gradients_.clear();
    free_.clear();
  }

private:
  struct Slot {
    DeviceBatch batch;
    Engine::Pass pass;
  };

  CudaContext& context() { return device_.context(); }
  CudaPlace place(const char* what) { return context().place(what); }
  CudaArray<float> array(const char* what) {
    return {CudaArray<float>::Where::device, elements_, place(what)};
  }

  void copy(const float* from, float* to, uint64_t count, cudaMemcpyKind kind) {
    if (count > 0)
      check(cudaMemcpyAsync(to, from, count * sizeof(float), kind,
                            context().stream()),
            place("bringing what a stage takes and gives"));
  }

  CudaDevice device_;
  uint64_t elements_; ///< of the parameters
  bool keeps_;
  bool reads_features_;
  bool reads_ids_;
  bool has_loss_;
  std::vector<uint8_t> half_; ///< by value
  std::vector<Slot> slots_;
  CudaArray<float> parameters_;
  std::vector<CudaArray<float>> gradients_; ///< of passes that are under way
  std::vector<float*> free_;                ///< of those, nobody's
  Buffer sum_;                              ///< a partial sum on the host
  float* shown_ = nullptr;                  ///< where it is on the device
  uint64_t shown_count_ = 0;
};

} // namespace

StageReplicas
make_cuda_stage_replicas(const Graph& graph,
                         const std::vector<GraphPart>& parts, DeviceId device,
                         const std::vector<StageOptions>& options) {
  const auto context = std::make_shared<CudaContext>(device,
                                                     options.front().precision);
  StageReplicas made;
  for (size_t i = 0; i < parts.size(); ++i)
    made.push_back(make_engine_stage(
      graph, parts[i], options[i],
      std::make_unique<CudaStageDevice>(graph, parts[i], context, options[i])));
  return made;
}

} // namespace troupe::kernels

#include "kernels/base/require.hpp"
#include "kernels/cuda/captured_pass.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_batch.cuh"
#include "kernels/cuda/dnn.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/pinned_pages.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/cuda/variables.cuh"
#include "kernels/engine/engine.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <deque>
#include <vector>

namespace troupe::kernels {

namespace {

/// What both keep on their device: the graph's memory, and its variables.
class OnDevice {
public:
  OnDevice(const Graph& graph, DeviceId id, const OptimizerOptions& rule,
           uint32_t max_rows, Precision precision)
    : graph_(graph),
      max_rows_(max_rows),
      device_(id, precision),
      current_(std::make_unique<CurrentDevice>(id.index)),
      engine_(graph_, device_, max_rows),
      batch_(graph_, max_rows, device_.context()),
      variables_(graph_, rule, device_.context()),
      passes_(device_.context(), true) {
    current_.reset();
  }

protected:
  CurrentDevice current() { return CurrentDevice{device_.context().index()}; }
  CudaContext& context() { return device_.context(); }

  /// Gaps between parameters are zero, and stay so.
  CudaArray<float> make_gradient() {
    const auto place = context().place("gradient");
    CudaArray<float> gradient{CudaArray<float>::Where::device,
                              variables_.total(), place};
    check(cudaMemsetAsync(gradient.data(), 0,
                          variables_.total() * sizeof(float),
                          context().stream()),
          place);
    return gradient;
  }

  Engine::Pass upload(const Batch& batch) {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    batch_.upload(batch);
    auto pass = batch_.pass(batch, {});
    pass.training = true;
    pass.parameters = variables_.parameters();
    return pass;
  }
  void compute(const Engine::Pass& pass, float* gradient) {
    engine_.forward(pass);
    engine_.backward(pass, gradient);
  }
  /// Loss and hits of the pass that was last. Waits for it.
  LeafStats fetch(const Engine::Pass& pass) {
    batch_.download(pass);
    context().synchronize("a training pass");
    const auto totals = batch_.take(pass, {});
    return {totals.loss, totals.correct};
  }

  /// to += from
  void add(const float* from, float* to) {
    device_.add(from, to, variables_.total());
  }

private:
  Graph graph_;
  uint32_t max_rows_;
  CudaDevice device_;
  std::unique_ptr<CurrentDevice> current_; ///< while it is made
  Engine engine_;
  DeviceBatch batch_;

protected:
  DeviceVariables variables_;
  CapturedPasses passes_;
};

class CudaResidentTrainer final : public ResidentTrainer, OnDevice {
public:
  CudaResidentTrainer(const Graph& graph, DeviceId id,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision)
    : OnDevice(graph, id, rule, max_rows, precision) {
    const auto device = current();
    gradient_ = make_gradient();
  }
  ~CudaResidentTrainer() override { cudaStreamSynchronize(context().stream()); }

  void set_parameters(const float* parameters) override {
    const auto device = current();
    variables_.write(parameters, nullptr, 0);
  }

  void load(const Batch& batch) override {
    require(batch.exchange == nullptr, "a resident trainer has no peers");
    const auto device = current();
    context().synchronize("loading a micro-batch");
    pass_ = upload(batch);
  }

  void step(const Step& step) override {
    require(pass_.rows > 0, "a step without a micro-batch");
    const auto device = current();
    variables_.send(step);
    const bool clips = step.clip_norm > 0;
    passes_.run({pass_.rows, clips, step.lazy_tables, pass_.step.rows,
                 pass_.step.leaves},
                [&] {
                  compute(pass_, gradient_.data());
                  variables_.update(gradient_.data(), clips, step.lazy_tables);
                });
  }

  LeafStats stats() override {
    const auto device = current();
    return fetch(pass_);
  }

  void read_parameters(float* out) override {
    const auto device = current();
    variables_.read(out, nullptr, 0);
  }

private:
  CudaArray<float> gradient_;
  Engine::Pass pass_;
};

class CudaResidentReplica final : public ResidentReplica, OnDevice {
public:
  using OnDevice::OnDevice;
  ~CudaResidentReplica() override { cudaStreamSynchronize(context().stream()); }

  void write(const float* parameters, const float* state,
             uint64_t stride) override {
    const auto device = current();
    variables_.write(parameters, state, stride);
    forget_gradients();
  }

  void read(float* parameters, float* state, uint64_t stride) override {
    const auto device = current();
    variables_.read(parameters, state, stride);
  }

  void forget_gradients() override {
    waiting_ = 0;
    stats_.clear();
  }

  void push_gradient(const Batch& batch, uint32_t) override {
    require(batch.exchange == nullptr, "a replica on a GPU has no peers");
    if (batch.gate != nullptr)
      batch.gate->await_all();
    const auto device = current();
    make_room();
    const auto pass = upload(batch);
    passes_.run({waiting_, pass.rows, pass.step.rows, pass.step.leaves},
                [&] { compute(pass, gradients_[waiting_].data()); });
    stats_.push_back(fetch(pass));
    ++waiting_;
  }

  LeafStats next_stats() override {
    require(!stats_.empty(), "a gradient that was begun");
    const auto stats = stats_.front();
    stats_.pop_front();
    return stats;
  }

  void add_gradients(uint32_t) override {
    require(waiting_ >= 2, "two gradients to add");
    const auto device = current();
    --waiting_;
    add(gradients_[waiting_].data(), gradients_[waiting_ - 1].data());
  }

  bool pop_gradient(float* to) override {
    require(waiting_ >= 1, "a gradient to take");
    const auto device = current();
    const auto* from = gradients_[--waiting_].data();
    variables_.examine(from);
    check(cudaMemcpyAsync(to, from, variables_.total() * sizeof(float),
                          cudaMemcpyDefault, context().stream()),
          context().place("download of a gradient"));
    context().synchronize("a gradient");
    return variables_.are_finite();
  }

  void push_sum(const float* from) override {
    const auto device = current();
    make_room();
    check(cudaMemcpyAsync(gradients_[waiting_++].data(), from,
                          variables_.total() * sizeof(float), cudaMemcpyDefault,
                          context().stream()),
          context().place("upload of a sum"));
  }

  std::shared_ptr<void> pin(float* array) override {
    const auto device = current();
    return PinnedPages::around(array, variables_.total() * sizeof(float));
  }

  bool update(const Update& update) override {
    require(waiting_ == 1, "an update by one gradient");
    const auto device = current();
    variables_.send(update);
    const bool clips = update.clip_norm > 0;
    passes_.run({clips, update.lazy_tables}, [&] {
      variables_.update(gradients_.front().data(), clips, update.lazy_tables);
    });
    waiting_ = 0;
    return !variables_.spoiled();
  }

private:
  void make_room() { // for one more gradient
    if (waiting_ == gradients_.size())
      gradients_.push_back(make_gradient());
  }

  std::vector<CudaArray<float>> gradients_; ///< as many as ever waited
  size_t waiting_ = 0;
  std::deque<LeafStats> stats_; ///< that nobody has asked for
};

} // namespace

std::unique_ptr<ResidentTrainer>
make_cuda_resident_trainer(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision) {
  return std::make_unique<CudaResidentTrainer>(graph, device, rule, max_rows,
                                               precision);
}

std::unique_ptr<ResidentReplica>
make_cuda_resident_replica(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision) {
  return std::make_unique<CudaResidentReplica>(graph, device, rule, max_rows,
                                               precision);
}

} // namespace troupe::kernels

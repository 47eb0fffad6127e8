#include "kernels/base/require.hpp"
#include "kernels/cuda/captured_pass.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_batch.cuh"
#include "kernels/cuda/dnn.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/optimizer.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/engine/engine.hpp"
#include "kernels/optimizer/terms.hpp"

#include <algorithm>
#include <vector>

namespace troupe::kernels {

namespace {

using FloatArray = CudaArray<float>;

std::vector<cuda::UpdateRun> runs_of(const Graph& graph, const Layout& layout) {
  std::vector<cuda::UpdateRun> runs;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const auto& parameter = graph.parameters[i];
    using Kind = cuda::UpdateRun::Kind;
    const auto kind = parameter.role == ParameterRole::statistic
                        ? Kind::statistic
                      : parameter.decays ? Kind::decayed
                                         : Kind::undecayed;
    for (uint64_t begin = 0; begin < parameter.size();
         begin += cuda::update_run)
      runs.push_back({layout.offsets[i] + begin,
                      static_cast<uint32_t>(std::min<uint64_t>(
                        cuda::update_run, parameter.size() - begin)),
                      kind, parameter.momentum});
  }
  return runs;
}

class CudaResidentTrainer final : public ResidentTrainer {
public:
  CudaResidentTrainer(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision)
    : graph_(graph),
      layout_(graph),
      rule_(rule),
      device_(device, precision),
      current_(std::make_unique<CurrentDevice>(device.index)),
      engine_(graph_, device_, max_rows),
      batch_memory_(graph_, max_rows, device_.context()),
      parameters_(on_device<float>(layout_.total, "parameters")),
      gradient_(on_device<float>(layout_.total, "gradient")),
      state_(on_device<float>(state_size(), "optimizer state")),
      terms_(on_device<cuda::StepTerms>(1, "terms of a step")),
      host_terms_(CudaArray<cuda::StepTerms>::Where::pinned, 1,
                  place("terms of a step")),
      passes_(device_.context(), true) {
    const auto runs = runs_of(graph_, layout_);
    runs_ = on_device<cuda::UpdateRun>(runs.size(), "update");
    squares_ = on_device<double>(runs.size(), "update");
    scale_ = on_device<float>(1, "update");
    run_count_ = static_cast<uint32_t>(runs.size());
    device_.upload(runs.data(), runs_.data(), runs.size() * sizeof(runs[0]));
    check(cudaEventCreateWithFlags(&terms_sent_, cudaEventDisableTiming),
          place("event"));
    for (auto [values, count] : {std::pair{parameters_.data(), layout_.total},
                                 std::pair{gradient_.data(), layout_.total},
                                 std::pair{state_.data(), state_size()}})
      check(cudaMemsetAsync(values, 0, count * sizeof(float), stream()),
            place("clearing"));
    current_.reset();
  }
  ~CudaResidentTrainer() override {
    cudaStreamSynchronize(stream());
    cudaEventDestroy(terms_sent_);
  }

  void set_parameters(const float* parameters) override {
    const CurrentDevice current(device_.context().index());
    device_.upload(parameters, parameters_.data(),
                   layout_.total * sizeof(float));
    check(cudaMemsetAsync(state_.data(), 0, state_size() * sizeof(float),
                          stream()),
          place("clearing"));
  }

  void load(const Batch& batch) override {
    require(batch.exchange == nullptr, "a resident trainer has no peers");
    const CurrentDevice current(device_.context().index());
    device_.context().synchronize("loading a micro-batch");
    batch_memory_.upload(batch);
    pass_ = batch_memory_.pass(batch, {});
    pass_.training = true;
    pass_.parameters = parameters_.data();
  }

  void step(const Step& step) override {
    require(pass_.rows > 0, "a step without a micro-batch");
    const CurrentDevice current(device_.context().index());
    send_terms(step);
    const bool clips = step.clip_norm != 0;
    passes_.run({pass_.rows, clips, pass_.step.rows, pass_.step.leaves}, [&] {
      engine_.forward(pass_);
      engine_.backward(pass_, gradient_.data());
      cuda::update_all({rule_.kind, terms_.data(), runs_.data(), run_count_,
                        parameters_.data(), gradient_.data(), state_.data(),
                        layout_.total, squares_.data(), scale_.data(), clips},
                       stream());
      check(cudaGetLastError(), place("update"));
    });
  }

  LeafStats stats() override {
    const CurrentDevice current(device_.context().index());
    batch_memory_.download(pass_);
    device_.context().synchronize("a training step");
    const auto totals = batch_memory_.take(pass_, {});
    return {totals.loss, totals.correct};
  }

  void read_parameters(float* out) override {
    device_.download(parameters_.data(), out, layout_.total * sizeof(float));
  }

private:
  CudaPlace place(const char* what) { return device_.context().place(what); }
  cudaStream_t stream() { return device_.context().stream(); }
  uint64_t state_size() const {
    return layout_.total * std::max(1u, state_slots(rule_.kind));
  }
  template <class T>
  CudaArray<T> on_device(size_t count, const char* what) {
    return {CudaArray<T>::Where::device, count, place(what)};
  }

  void send_terms(const Step& step) {
    // The copy before has left the pinned memory.
    check(cudaEventSynchronize(terms_sent_), place("terms of a step"));
    const float nothing = 0; // pointers that the terms want, and nobody follows
    UpdateArgs args;
    args.gradient_sum = args.in = args.state_in = &nothing;
    args.samples = step.samples;
    args.step = step.number;
    args.learning_rate = step.learning_rate;
    auto& terms = *host_terms_.data();
    args.decays = true;
    terms.decayed = update_terms(rule_, args);
    args.decays = false;
    terms.undecayed = update_terms(rule_, args);
    terms.samples = step.samples;
    terms.clip_norm = step.clip_norm;
    check(cudaMemcpyAsync(terms_.data(), host_terms_.data(), sizeof terms,
                          cudaMemcpyHostToDevice, stream()),
          place("terms of a step"));
    check(cudaEventRecord(terms_sent_, stream()), place("terms of a step"));
  }

  Graph graph_;
  Layout layout_;
  OptimizerOptions rule_;
  CudaDevice device_;
  std::unique_ptr<CurrentDevice> current_; ///< while the trainer is made
  Engine engine_;
  DeviceBatch batch_memory_;
  FloatArray parameters_;
  FloatArray gradient_;
  FloatArray state_;
  CudaArray<cuda::StepTerms> terms_;
  CudaArray<cuda::StepTerms> host_terms_;
  CudaArray<cuda::UpdateRun> runs_;
  CudaArray<double> squares_;
  CudaArray<float> scale_;
  uint32_t run_count_ = 0;
  cudaEvent_t terms_sent_ = nullptr;
  Engine::Pass pass_;
  CapturedPasses passes_;
};

} // namespace

std::unique_ptr<ResidentTrainer>
make_cuda_resident_trainer(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision) {
  return std::make_unique<CudaResidentTrainer>(graph, device, rule, max_rows,
                                               precision);
}

} // namespace troupe::kernels

#include "kernels/cpu/stage_replica.hpp"

#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"
#include "kernels/engine/engine_stage.hpp"

#include <algorithm>
#include <vector>

namespace troupe::kernels {

namespace {

/// Everything is where it is.
class CpuStageDevice final : public StageDevice {
public:
  explicit CpuStageDevice(const StageOptions& options)
    : device_(make_cpu_device(options.precision)), totals_(options.in_flight) {}

  Device& device() override { return *device_; }
  void enter() override { prepare_compute_thread(); }

  Engine::Pass take_batch(uint32_t slot, const Batch& batch) override {
    auto pass = cpu_pass(nullptr, batch);
    pass.totals = &totals_[slot];
    return pass;
  }
  const float* take_parameters(const float* parameters, bool) override {
    return parameters;
  }
  float* take_gradient(float* gradient) override { return gradient; }
  void give_back(float*) override {}
  LossTotals totals(uint32_t slot) override { return totals_[slot]; }

  void send(const float* from, float* to, uint64_t count) override {
    if (from != to)
      std::copy_n(from, count, to);
  }
  void fetch(const float* from, float* to, uint64_t count) override {
    send(from, to, count);
  }
  void send_value(uint32_t, const float* from, float* to,
                  uint64_t count) override {
    send(from, to, count);
  }
  void fetch_value(uint32_t, const float* from, float* to,
                   uint64_t count) override {
    send(from, to, count);
  }
  std::span<float> show(float* sum, uint64_t count) override {
    return {sum, count};
  }
  void take_back() override {}
  void end() override {}

private:
  std::unique_ptr<Device> device_;
  std::vector<LossTotals> totals_;
};

} // namespace

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options) {
  return make_engine_stage(graph, std::move(part), options,
                           std::make_unique<CpuStageDevice>(options));
}

std::unique_ptr<PartMemory> make_cpu_part_memory(const Graph& graph,
                                                 const StageOptions& options) {
  return make_engine_part_memory(graph, options,
                                 make_cpu_device(options.precision));
}

} // namespace troupe::kernels

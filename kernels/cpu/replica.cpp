#include "kernels/cpu/replica.hpp"

#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

class CpuReplica final : public Replica {
public:
  CpuReplica(const Graph& graph, uint32_t max_rows, Precision precision)
    : graph_(graph),
      device_(make_cpu_device(precision)),
      engine_(graph_, *device_, max_rows) {}

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    auto pass = cpu_pass(parameters, batch);
    pass.training = true;
    LossTotals totals;
    pass.totals = &totals;
    engine_.forward(pass);
    engine_.backward(pass, gradient, ready);
    return {totals.loss, totals.correct};
  }

  std::vector<LeafStats> gradient(const float* parameters, const Batch& batch,
                                  StackedLeaves leaves, float* gradient,
                                  const ParameterReady& ready) override {
    auto pass = cpu_pass(parameters, batch);
    pass.training = true;
    pass.leaves = leaves;
    std::vector<LossTotals> totals(leaves.size());
    pass.totals = totals.data();
    engine_.forward(pass);
    engine_.backward(pass, gradient, ready);
    std::vector<LeafStats> stats;
    stats.reserve(totals.size());
    for (const auto& leaf : totals)
      stats.push_back({leaf.loss, leaf.correct});
    return stats;
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    auto pass = cpu_pass(parameters, batch);
    pass.classes = predictions.classes;
    LossTotals totals;
    pass.totals = &totals;
    engine_.forward(pass);
    if (predictions.outputs != nullptr)
      std::copy_n(engine_.outputs(), batch.rows * graph_.outputs(),
                  predictions.outputs);
    return {totals.loss, totals.correct};
  }

  uint64_t memory_bytes() const override {
    return engine_.memory().total * sizeof(float);
  }

private:
  Graph graph_;
  std::unique_ptr<Device> device_;
  Engine engine_;
};

} // namespace

std::unique_ptr<Replica> make_cpu_replica(const Graph& graph, uint32_t max_rows,
                                          Precision precision) {
  return std::make_unique<CpuReplica>(graph, max_rows, precision);
}

} // namespace troupe::kernels

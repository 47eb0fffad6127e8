#include "kernels/cpu/replica.hpp"

#include "kernels/buffer.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/engine/engine.hpp"
#include "kernels/error.hpp"

#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

class CpuDevice final : public Device {
public:
  explicit CpuDevice(Precision precision) : precision_(precision) {}

  float* allocate(size_t count) override {
    memory_.emplace_back(count);
    return memory_.back().data();
  }

  void add(const float* from, float* to, size_t count) override {
    loops().add(from, to, to, count);
  }

  void copy(const float* from, float* to, size_t count) override {
    std::memcpy(to, from, count * sizeof(float));
  }

  OperatorPtr make_operator(const Graph& graph, size_t op,
                            uint32_t max_rows) override {
    return make_cpu_operator({graph, graph.ops[op], max_rows, precision_});
  }

private:
  Precision precision_;
  std::vector<Buffer> memory_;
};

class CpuReplica final : public Replica {
public:
  CpuReplica(const Graph& graph, uint32_t max_rows, Precision precision)
    : graph_(graph), device_(precision), engine_(graph_, device_, max_rows) {}

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    auto pass = pass_of(parameters, batch);
    pass.training = true;
    LossTotals totals;
    pass.totals = &totals;
    engine_.forward(pass);
    engine_.backward(pass, gradient, ready);
    return {totals.loss, totals.correct};
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    auto pass = pass_of(parameters, batch);
    pass.classes = predictions.classes;
    pass.scores = predictions.scores;
    LossTotals totals;
    pass.totals = &totals;
    engine_.forward(pass);
    return {totals.loss, totals.correct};
  }

  uint64_t memory_bytes() const override {
    return engine_.memory().total * sizeof(float);
  }

private:
  static Engine::Pass pass_of(const float* parameters, const Batch& batch) {
    prepare_compute_thread();
    Engine::Pass pass;
    pass.rows = batch.rows;
    pass.parameters = parameters;
    pass.features = batch.features;
    pass.ids = batch.ids;
    pass.labels = batch.labels;
    pass.targets = batch.targets;
    pass.key = &batch.key;
    pass.exchange = batch.exchange;
    return pass;
  }

  Graph graph_;
  CpuDevice device_;
  Engine engine_;
};

} // namespace

std::unique_ptr<Replica> make_cpu_replica(const Graph& graph, uint32_t max_rows,
                                          Precision precision) {
  pin_unless_selected();
  if (precision == Precision::bfloat16 && !has_bfloat16())
    throw InputError("--precision bfloat16: this processor (or --isa) lacks "
                     "avx512_bf16; use float32");
  return std::make_unique<CpuReplica>(graph, max_rows, precision);
}

} // namespace troupe::kernels

#include "kernels/cuda/resident.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cuda/replica.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/optimizer/norms.hpp"

#include <algorithm>
#include <vector>

namespace troupe {

namespace {

/// A replica and the update, one after the other.
class CpuResidentTrainer final : public ResidentTrainer {
public:
  CpuResidentTrainer(const Graph& graph, DeviceId device,
                     const OptimizerOptions& rule, uint32_t max_rows,
                     Precision precision)
    : graph_(graph),
      layout_(graph),
      rule_(rule),
      replica_(make_replica(graph, device, max_rows, precision)),
      memory_(graph, max_rows),
      parameters_(layout_.total),
      gradient_(layout_.total),
      state_(layout_.total * std::max(1u, state_slots(rule.kind))) {
    parameters_.fill(0);
    gradient_.fill(0);
    state_.fill(0);
  }

  void set_parameters(const float* parameters) override {
    std::copy_n(parameters, layout_.total, parameters_.data());
    state_.fill(0);
  }

  void load(const Batch& batch) override {
    const auto rows = batch.rows;
    auto take = [rows](auto* from, auto* to, uint64_t row) {
      if (from != nullptr)
        std::copy_n(from, rows * row, to);
    };
    take(batch.features, memory_.features(), graph_.features());
    take(batch.ids, memory_.ids(), graph_.ids());
    take(batch.labels, memory_.labels(), graph_.labels());
    take(batch.targets, memory_.targets(), graph_.labels());
    batch_ = memory_.batch(rows, batch.key);
    batch_.exchange = batch.exchange;
  }

  void step(const Step& step) override {
    kernels::require(batch_.rows > 0, "a step without a micro-batch");
    stats_ = replica_->gradient(parameters_.data(), batch_, gradient_.data());
    const auto scale = clip(step);
    for (uint32_t whole = 0; whole < whole_parameters(graph_).size(); ++whole) {
      std::vector<UpdateArgs> pieces;
      for (auto i : pieces_of(graph_, whole))
        pieces.push_back(args_of(i, step, scale));
      if (rule_.kind == OptimizerKind::lamb)
        set_trust_ratio(pieces);
      for (const auto& args : pieces)
        update(rule_, args);
    }
  }

  LeafStats stats() override { return stats_; }
  void read_parameters(float* out) override {
    std::copy_n(parameters_.data(), layout_.total, out);
  }

private:
  UpdateArgs args_of(uint32_t parameter, const Step& step, float scale) {
    const auto offset = layout_.offsets[parameter];
    UpdateArgs args;
    args.samples = step.samples;
    args.step = step.number;
    args.learning_rate = step.learning_rate;
    args.gradient_scale = scale;
    set_parameter(args, graph_.parameters[parameter]);
    args.lazy = step.lazy_tables && graph_.parameters[parameter].by_rows;
    args.gradient_sum = gradient_.data() + offset;
    args.in = args.out = parameters_.data() + offset;
    args.state_in = args.state_out = state_.data() + offset;
    args.state_stride = layout_.total;
    args.count = graph_.parameters[parameter].size();
    return args;
  }

  /// One for all pieces of a layer.
  void set_trust_ratio(std::vector<UpdateArgs>& pieces) const {
    std::vector<double> values;
    std::vector<double> directions;
    for (const auto& args : pieces) {
      std::vector<double> of_values(norm_blocks(args.count));
      auto of_directions = of_values;
      lamb_square_sum_blocks(rule_, args, of_values.data(),
                             of_directions.data());
      values.push_back(tree_sum(of_values));
      directions.push_back(tree_sum(of_directions));
    }
    const auto ratio = trust_ratio(tree_sum(values), tree_sum(directions));
    for (auto& args : pieces)
      args.trust_ratio = ratio;
  }

  float clip(const Step& step) const {
    if (step.clip_norm == 0)
      return 1;
    std::vector<double> sums;
    for (auto i : order_by_name(graph_)) {
      const auto count = graph_.parameters[i].size();
      std::vector<double> blocks(norm_blocks(count));
      square_sum_blocks(gradient_.data() + layout_.offsets[i], count,
                        blocks.data());
      sums.push_back(tree_sum(blocks));
    }
    return clip_scale(mean_norm(tree_sum(sums), step.samples), step.clip_norm);
  }

  Graph graph_;
  Layout layout_;
  OptimizerOptions rule_;
  std::unique_ptr<Replica> replica_;
  BatchMemory memory_;
  Batch batch_;
  Buffer parameters_;
  Buffer gradient_;
  Buffer state_;
  LeafStats stats_;
};

} // namespace

std::unique_ptr<ResidentTrainer>
make_resident_trainer(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision) {
  if (device.kind == DeviceId::Kind::cuda)
    return kernels::make_cuda_resident_trainer(graph, device, rule, max_rows,
                                               precision);
  return std::make_unique<CpuResidentTrainer>(graph, device, rule, max_rows,
                                              precision);
}

} // namespace troupe

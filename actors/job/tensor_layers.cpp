#include "actors/job/tensor_layers.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/sleep_model.hpp"

namespace troupe {

std::vector<TensorOp> tensor_ops(const Graph& graph) {
  std::vector<TensorOp> ops;
  for (uint32_t i = 0; i < graph.ops.size(); ++i) {
    const auto& op = graph.ops[i];
    TensorOp out;
    out.variables = op.parameters;
    out.flops = graph.flops_of(i);
    out.bytes = graph.values[op.output].size() * sizeof(float);
    if (op.slices) {
      out.slices = RankRange{op.slices->lo, op.slices->hi};
      if (out.slices->size() > 1)
        out.kind = op.kind == OpKind::add ? TensorOp::Kind::sums
                                          : TensorOp::Kind::shares;
    }
    ops.push_back(std::move(out));
  }
  return ops;
}

void check_tensor(const JobOptions& options, const Graph& graph) {
  const auto mesh = mesh_of(options);
  const auto slices = options.cut.virtual_slices;
  const bool meshed = options.strategy == Strategy::hybrid;
  if (auto mistake = mistake_of_tensor(
        mesh.tensor, slices, meshed ? "--mesh " + to_string(mesh) : ""))
    throw UsageError(*mistake);
  if (options.reduction == "fast")
    throw UsageError("--reduction fast has no effect with strategy "
                     + to_string(options.strategy)
                     + ", whose members sum along the fixed tree: drop it");
  if (sleep_model(graph.text))
    throw UsageError("--model " + options.model
                     + " waits and multiplies nothing that could be cut: use "
                       "another strategy");
}

std::vector<TensorShare> tensor_shares(const JobOptions& options,
                                       const Graph& graph,
                                       const std::vector<StageLayers>& stages) {
  check_tensor(options, graph);
  const auto mesh = mesh_of(options);
  std::vector<OpRun> runs;
  for (uint32_t i = 0; i < stages.size(); ++i)
    runs.push_back({stages[i].begin, stages[i].end, i % mesh.stages});
  auto ops = tensor_ops(graph);
  const auto again = flops_again(options, graph);
  for (size_t op = 0; op < ops.size(); ++op)
    ops[op].flops += again[op];
  auto shares = tensor_shares(ops, mesh.tensor, options.cut.virtual_slices,
                              runs);
  for (uint32_t place = 0; place < shares.size(); ++place)
    if (shares[place].shows.empty())
      throw UsageError("--mesh " + to_string(mesh) + ": stage "
                       + std::to_string(mesh.stage_of(place))
                       + " has no layer in virtual slices, and fewer variables "
                         "than members; use fewer stages, or cut elsewhere "
                         "with --split-at");
  return shares;
}

TensorPart tensor_part_of(const Graph& graph, const TensorShare& share) {
  return tensor_part(graph, {share.slices.lo, share.slices.hi});
}

} // namespace troupe

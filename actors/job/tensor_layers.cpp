#include "actors/job/tensor_layers.hpp"

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

std::vector<TensorShare> tensor_shares(const JobOptions& options,
                                       const Graph& graph) {
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
  return tensor_shares(tensor_ops(graph), mesh.tensor, slices);
}

TensorPart tensor_part_of(const Graph& graph, const TensorShare& share) {
  return tensor_part(graph, {share.slices.lo, share.slices.hi});
}

} // namespace troupe

#include "actors/compute/part_probe.hpp"

#include "actors/job/sharded_parts.hpp"
#include "actors/job/slice_update.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr uint64_t probe_seed = 1;

/// The initial parameters of a part, flat by its layout.
Buffer first_parameters(const Graph& graph, const StageReplica& replica) {
  const auto& layout = replica.layout();
  Buffer parameters{std::max<size_t>(1, layout.total)};
  parameters.fill(0);
  for (auto parameter : replica.part().parameters)
    initialize(graph, probe_seed, parameter, 0,
               parameters.data() + layout.offsets[parameter],
               graph.parameters[parameter].size());
  return parameters;
}

/// Updates what the part keeps, in place.
void update_part(const Job& job, const StageReplica& replica, uint32_t rows,
                 const Buffer& gradient, Buffer& parameters) {
  const auto slots = state_slots(job.options.rule.kind);
  const auto& kept = replica.part().kept;
  for (const auto& slice : job.plan.slices) {
    if (std::ranges::find(kept, slice.variable) == kept.end())
      continue;
    const auto at = replica.layout().offsets[slice.variable] + slice.offset;
    Buffer state{std::max<size_t>(1, slots * slice.count)};
    state.fill(0);
    auto args = slice_update(job, slice, {0, 0, rows});
    args.gradient_sum = gradient.data() + at;
    args.in = args.out = parameters.data() + at;
    args.state_in = args.state_out = state.data();
    args.state_stride = slice.count;
    update(job.options.rule, args);
  }
}

} // namespace

std::string probe_of_parts(const Job& job, DeviceId device,
                           const Batch& batch) {
  const auto& graph = job.graph;
  const auto parts = make_sharded_parts(graph, device, batch.rows,
                                        job.precision());
  uint64_t most = 1;
  for (const auto& replica : parts) {
    const auto& part = replica->part();
    most = std::max({most, forward_elements(graph, part.out, batch.rows),
                     backward_elements(graph, part.in, batch.rows)});
  }
  Buffer crossing{most};
  Buffer next{most};
  for (const auto& part : parts) {
    const auto parameters = first_parameters(graph, *part);
    part->forward(0, parameters.data(), batch, crossing.data(), next.data());
    std::swap(crossing, next);
  }
  std::string hashes;
  for (auto at = parts.rbegin(); at != parts.rend(); ++at) {
    auto& part = **at;
    auto parameters = first_parameters(graph, part);
    Buffer gradient{parameters.size()};
    gradient.fill(0);
    part.move_parameters(0, parameters.data());
    part.backward(0, crossing.data(), gradient.data(), next.data());
    std::swap(crossing, next);
    hashes += sha256(std::as_bytes(gradient.span()));
    update_part(job, part, batch.rows, gradient, parameters);
    hashes += sha256(std::as_bytes(parameters.span()));
  }
  return sha256(std::as_bytes(std::span{hashes}));
}

} // namespace troupe

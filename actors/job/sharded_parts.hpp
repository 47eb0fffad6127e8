#pragma once

#include "actors/job/job_options.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/stages.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Passes for which a worker of a fully sharded job gathers parameters ahead,
/// the one that runs included: the next part's come while one computes. As many
/// gradients of parts are on their way to their owners at once.
inline constexpr uint32_t sharded_window = 2;

/// The parts that a worker takes a leaf through which gathers parameters, or
/// gives gradients away, as it goes: runs of operators with no more parameters
/// than the largest operator has by itself.
std::vector<OpRange> sharded_parts(const Graph& graph);

/// What a part is made for, of leaves of up to `rows`.
StageOptions sharded_part_options(uint32_t rows, Precision precision);

/// All of them on a device. Errors: as of make_stage_replica().
StageReplicas make_sharded_parts(const Graph& graph, DeviceId device,
                                 uint32_t rows, Precision precision);

/// Errors: UsageError for a model that cannot be taken part by part.
void check_sharded_parts(const JobOptions& options, const Graph& graph);

/// What one worker takes that goes part by part, as much as it allocates.
struct ShardedBytes {
  uint64_t variables = 0; ///< parameters that are gathered at once
  uint64_t gradients = 0; ///< of parts, until they are with their owners
  uint64_t step = 0;      ///< activations of a leaf, and what crosses
};
/// `step` is left out where the caller has no use for it.
ShardedBytes sharded_bytes(const JobOptions& options, const Graph& graph,
                           uint32_t rows, bool with_step);

} // namespace troupe

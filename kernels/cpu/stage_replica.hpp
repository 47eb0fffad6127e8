#pragma once

#include "kernels/engine/stage_replica.hpp"

namespace troupe::kernels {

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options);

/// What its memory_bytes() would be.
uint64_t cpu_stage_memory_bytes(const Graph& graph, const GraphPart& part,
                                const StageOptions& options);

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/stage_replica.hpp"

namespace troupe::kernels {

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options);

std::unique_ptr<PartMemory> make_cpu_part_memory(const Graph& graph,
                                                 const StageOptions& options);

} // namespace troupe::kernels

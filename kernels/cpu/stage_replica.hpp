#pragma once

#include "kernels/engine/stage_replica.hpp"

namespace troupe::kernels {

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options);

} // namespace troupe::kernels

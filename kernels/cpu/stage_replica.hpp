#pragma once

#include "kernels/engine/stage_replica.hpp"

namespace troupe::kernels {

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part, uint32_t max_rows,
                       uint32_t in_flight, Precision precision);

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/sleep_model.hpp"

namespace troupe::kernels {

/// Makes the replica of a sleep_graph without layers, for any device.
std::unique_ptr<Replica> make_sleeping_replica(const Graph& graph,
                                               const SleepModel& sleep);

} // namespace troupe::kernels

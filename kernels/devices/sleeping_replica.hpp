#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/sleep_model.hpp"

namespace troupe::kernels {

/// Makes the replica of a sleep_graph without layers, for any device.
std::unique_ptr<Replica> make_sleeping_replica(const Graph& graph,
                                               const SleepModel& sleep);

/// What models that wait predict: class 0 and score 0, of `count` labels each.
void predict_zeros(const Predictions& predictions, uint64_t count);

} // namespace troupe::kernels

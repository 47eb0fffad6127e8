#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/sleep_model.hpp"

namespace troupe::kernels {

/// Makes the replica of a sleep_graph without layers, for any device.
std::unique_ptr<Replica> make_sleeping_replica(const Graph& graph,
                                               const SleepModel& sleep);

/// What models that wait predict: class 0 for so many labels, and as many zeros
/// as the loss takes.
void predict_zeros(const Predictions& predictions, uint64_t labels,
                   uint64_t outputs);

} // namespace troupe::kernels

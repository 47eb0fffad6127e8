#pragma once

#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/sleep_model.hpp"

#include <memory>

namespace troupe::kernels {

/// Makes the replica of a sleep_graph with layers, for any device: a gradient
/// takes three times the layers' milliseconds.
std::unique_ptr<Replica> make_sleeping_layers(const Graph& graph,
                                              const SleepModel& sleep);

/// Makes a stage of it: a pass takes the milliseconds of the part's layers, a
/// whole backward pass twice as long, and each of them so long again where
/// activations are computed again. Both replica and stage have the gradient and
/// loss of each layer that sleep_model.hpp says, whatever the cuts.
std::unique_ptr<StageReplica>
make_sleeping_stage(const Graph& graph, GraphPart part, const SleepModel& sleep,
                    const StageOptions& options);

} // namespace troupe::kernels

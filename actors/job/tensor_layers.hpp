#pragma once

#include "actors/job/job_options.hpp"
#include "kernels/graph/tensor_part.hpp"
#include "strategies/plan.hpp"
#include "strategies/tensor_plan.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// A graph in virtual slices as strategies/tensor_plan sees it; one without has
/// operators of no slice alone.
std::vector<TensorOp> tensor_ops(const Graph& graph);

/// Errors: UsageError for members that cannot have the virtual slices, and for
/// what the strategy does not have.
void check_tensor(const JobOptions& options, const Graph& graph);

/// What each tensor member of a group has of the model; with `stages`, their
/// chunks in the model's order, of the groups that are the stages.
/// Errors: as above; UsageError for a stage with nothing for some member.
std::vector<TensorShare> tensor_shares(const JobOptions& options,
                                       const Graph& graph,
                                       const std::vector<StageLayers>& stages);

/// The part of the graph that a member computes.
TensorPart tensor_part_of(const Graph& graph, const TensorShare& share);

} // namespace troupe

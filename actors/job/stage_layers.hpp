#pragma once

#include "actors/job/job_options.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/engine/operator_times.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/graph.hpp"
#include "strategies/pipeline_schedule.hpp"
#include "strategies/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Whether --split-at names operators; else it says, or leaves open, what
/// decides where the graph is cut.
bool names_cuts(const JobOptions& options);
bool cuts_by_flops(const JobOptions& options);

/// The schedule that a job's stages keep to, of so many micro-batches. `auto`,
/// of which choose_layout() makes one, is 1F1B.
PipelineShape pipeline_shape(const JobOptions& options, uint32_t micro_batches);
/// As many as a pipeline has in a step at most.
uint32_t micro_batches(const JobOptions& options);

/// Cuts a graph into `options.stages` stages, or as many chunks as they have
/// together: where `split_at` says, or so that the slowest stage is fastest by
/// the operators' times, or FLOPs, and, among those cuts, least crosses
/// (cut_stages); of the cuts that
/// keep to `cut.device_memory` (each chunk to its share of it), where there are
/// any. Stages of tensor members are cut where all of them have what crosses.
/// A virtual rank has up to `rows` samples.
/// Errors: UsageError for names that no operator has, that are out of order or
/// not one less than the stages; for names of layers to compute again that
/// there are not, or are twice; for more stages than operators; for a schedule
/// that cannot be; for a model or rule that stages cannot train.
/// `times`: by operator; empty: none are known.
std::vector<StageLayers>
stage_layers(const JobOptions& options, const Graph& graph, uint32_t rows,
             const std::vector<OperatorTime>& times = {});

/// FLOPs of a sample that are taken again before its backward passes, by
/// operator.
std::vector<uint64_t> flops_again(const JobOptions& options,
                                  const Graph& graph);

/// Where they are cut, as `split_at` names it.
std::string cuts_of(const std::vector<StageLayers>& layers);

/// What the passes of each of these parts take, in nanoseconds, or FLOPs where
/// no times are known.
std::vector<PartCost> part_costs(const JobOptions& options, const Graph& graph,
                                 uint32_t rows,
                                 const std::vector<StageLayers>& layers,
                                 const std::vector<OperatorTime>& times);

/// What part number `part` of a job's layers is made for, of micro-batches of
/// up to `rows`; the graph is the job's, or a tensor member's share of it.
StageOptions stage_options(const JobOptions& options, const Graph& graph,
                           uint32_t part, uint32_t rows, Precision precision);

} // namespace troupe

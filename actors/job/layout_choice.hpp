#pragma once

#include "actors/job/job_options.hpp"
#include "kernels/engine/operator_times.hpp"
#include "kernels/graph/graph.hpp"
#include "strategies/pipeline_schedule.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct Job;

/// How stages were laid out of what could be, and why.
struct LayoutChoice {
  struct Tried {
    std::string schedule; ///< "interleaved with 2 chunks a stage"
    /// Of a step, as predicted, in nanoseconds or FLOPs: by the order of passes
    /// alone, what crosses between stages takes no time.
    uint64_t step = 0;
    double idle_share = 0; ///< in which stages wait for each other
    bool fits = true;      ///< --device-memory allows it
  };
  std::vector<Tried> tried; ///< the chosen one first
  bool measured = false;    ///< by operators' times, not FLOPs
};

/// Whether a job leaves open where its graph is cut into stages, or which
/// schedule they keep to.
bool leaves_layout_open(const JobOptions& options);

/// Decides that: makes the schedule `auto` the fastest of those that keep to
/// the limit of memory, or of those as fast the one that holds least; and names
/// the operators that stages begin with. What the options say already is left.
/// `times`: of operators; empty: FLOPs.
/// Errors: UsageError as of stage_layers(), where no schedule can be.
LayoutChoice choose_layout(JobOptions& options, const Graph& graph,
                           uint32_t rows,
                           const std::vector<OperatorTime>& times);
/// The same of a job made of these options, by operators that are measured
/// here, unless it is to be by FLOPs.
LayoutChoice choose_layout(JobOptions& options, const Job& made);

/// What the operators of a job made of these options take on this machine;
/// empty: it is to go by FLOPs.
std::vector<OperatorTime> measured_times(const JobOptions& options,
                                         const Job& made);

/// For people: "schedule zero_bubble: a step of 10.2 ms, 14 % of it waiting, by
/// operators measured here (1f1b 12.1 ms; gpipe needs too much memory)".
std::string to_string(const LayoutChoice& choice);

/// A layout as text, for a coordinator that follows another one and would find
/// another; empty: of no stages or tensor members. take_layout() reads that. Of
/// a mesh that is not the options' it makes them those of hybrid.
std::string kept_layout(const JobOptions& options);
/// Errors: InputError.
void take_layout(JobOptions& options, const std::string& kept);

} // namespace troupe

#pragma once

#include "actors/job/job.hpp"
#include "kernels/engine/executor.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

/// What a slice must know of the whole gradient before it can be applied
/// (PROTOCOL 5); the defaults are those of a step that needs none of it.
struct StepScalars {
  float gradient_scale = 1;        ///< of clipping by the global norm
  std::vector<float> trust_ratios; ///< per variable; empty without LAMB
  float rate_scale = 1;            ///< of the learning rate, for staleness
};

/// Which update it is.
struct UpdateMoment {
  uint64_t count = 0; ///< updates of the slice before this one
  uint64_t step = 0;  ///< of the learning rate's schedule
  uint32_t samples = 0;
};

/// The one place where the rule of a slice's update is made: it depends on the
/// parameter that the slice is cut from (weight decay, running statistics), so
/// no update ever spans two. The caller adds the pointers.
UpdateArgs slice_update(const Job& job, const Slice& slice, UpdateMoment moment,
                        const StepScalars& scalars = {});

/// Updates elements of a slice, from `begin` of it on, by the job's rule; who
/// watches the job's updates is told.
void update_slice(const Job& job, const Slice& slice, uint64_t begin,
                  uint64_t step, const UpdateArgs& args);
/// Tells who watches, where code of the user's did it.
void updated_slice(const Job& job, const Slice& slice, uint64_t begin,
                   uint64_t step, const UpdateArgs& args);

/// The scalars of a step are found in rounds, each of which asks all slices for
/// block sums and ends with scalars that the next round, or the update, needs.
enum class ScalarRoundKind : uint8_t { gradient_norm, trust_ratios };
std::vector<ScalarRoundKind> rounds_of(const JobOptions& options);

/// The block sums of a slice in a round, a pure function of its update with the
/// scalars found so far: for each block of 4,096 elements one sum of squares of
/// the gradient; of trust ratios those of the values, then those of the
/// directions. Running statistics have none. A part of a sparse table has one
/// of each, over the rows that the step touches (args.count elements): parts
/// follow from table and batch alone.
std::vector<double> slice_sums(const Job& job, const Slice& slice,
                               ScalarRoundKind round, const UpdateArgs& args);

/// How many sums a slice has in a round.
size_t sums_of(const Job& job, const Slice& slice, ScalarRoundKind round);

/// All slices' sums of a round, added up along the fixed tree.
class RoundSums {
public:
  RoundSums(const Job& job, ScalarRoundKind round);

  /// Shape: sums [sums_of()], which the caller has checked; or none, which adds
  /// nothing.
  void put(const Slice& slice, const std::vector<double>& sums);
  /// What the decider publishes once every slice's sums are there: the
  /// gradient's scale [1], or a trust ratio for each variable [variables].
  std::vector<float> scalars(uint32_t samples) const;

private:
  const Job& job_;
  ScalarRoundKind round_;
  std::vector<std::vector<double>> blocks_; ///< per variable
  std::vector<std::vector<double>> directions_;
};

/// Takes over what a round published.
/// Errors: false where it is not of this job's size.
bool take_scalars(const Job& job, ScalarRoundKind round,
                  const std::vector<float>& published, StepScalars& into);

/// All rounds at once, for who holds the whole gradient: each computes the same
/// function of the same bits, so nobody decides for others. `args_of` fills in
/// a slice's pointers; the slices are spread over the executor (null: none).
StepScalars
whole_scalars(const Job& job, Executor* executor, UpdateMoment moment,
              const std::function<void(const Slice&, UpdateArgs&)>& args_of);

/// Updates all slices, rounds included; null executor: on this thread. Nobody
/// is told.
void whole_update(
  const Job& job, Executor* executor, UpdateMoment moment,
  const std::function<void(const Slice&, UpdateArgs&)>& args_of);

} // namespace troupe

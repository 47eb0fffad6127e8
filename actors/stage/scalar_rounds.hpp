#pragma once

#include "actors/job/slice_update.hpp"
#include "actors/wire/tensor_view.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// The scalars over all parameters that a step of stages needs (clipping,
/// LAMB), round by round: each stage adds the block sums of its slices to those
/// that come from the stages after it and sends them on to the stage before;
/// the first one makes the scalars of all sums, which go on from stage to stage
/// (PROTOCOL 5). Nobody writes them down: a step that is broken off has the
/// same ones when it is taken anew. Pure.
class StageScalars {
public:
  StageScalars(const Job& job, uint32_t stage);

  /// A step begins.
  void begin();
  /// All rounds are done: the scalars are known.
  bool is_done() const { return round_ == rounds_.size(); }
  uint32_t round() const { return round_; }
  size_t rounds() const { return rounds_.size(); }
  ScalarRoundKind kind() const { return rounds_[round_]; }
  const StepScalars& scalars() const { return scalars_; }

  /// Elements of what comes in a round, from the stage after and before.
  uint64_t sums_elements(uint32_t round) const;
  uint64_t scalars_elements(uint32_t round) const;

  /// This stage's sums of the round with those that came (empty: of the last
  /// stage), for the stage before.
  static TensorView join(const std::vector<double>& own,
                         const TensorView& later);
  /// The first stage has all sums: the scalars of the round.
  TensorView decide(const TensorView& sums, uint32_t samples) const;
  /// The scalars of the round are known: on to the next.
  /// Errors: false where they are not of the job's size.
  bool take(const TensorView& scalars);

private:
  const Job& job_;
  uint32_t stage_;
  std::vector<ScalarRoundKind> rounds_;
  uint32_t round_ = 0;
  StepScalars scalars_;
};

} // namespace troupe

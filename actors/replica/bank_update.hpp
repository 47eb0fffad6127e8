#pragma once

#include "actors/job/slice_update.hpp"
#include "actors/replica/memory.hpp"
#include "kernels/engine/executor.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Updates of variables in the host's banks: reads the version of the moment's
/// step, writes the next one.
class BankUpdate {
public:
  BankUpdate(const Job& job, Executor& executor);

  /// Of which slices whole() tells how they are spread, as others update all as
  /// well; so does run(), if others `run_all`. Before that, both tell of all.
  void tell_of(const std::vector<uint32_t>& slices, bool run_all);

  /// Updates elements [begin, end) of the flat buffer, whose sums begin at
  /// `sum`.
  void run(const VariableBanks& banks, UpdateMoment moment,
           const StepScalars& scalars, uint64_t begin, uint64_t end,
           const float* sum) const;
  /// All slices, on all the executor's threads. Shapes: sum
  /// [Job::layout.total].
  void whole(const VariableBanks& banks, UpdateMoment moment,
             const float* sum) const;
  /// What run() is to be told of the whole sum, where the rule asks for it.
  StepScalars scalars(const VariableBanks& banks, UpdateMoment moment,
                      const float* sum) const;

private:
  const Job& job_;
  Executor& executor_;
  std::vector<uint32_t> by_place_; ///< slices in order of the flat buffer
  std::vector<bool> told_;         ///< by slice
  bool runs_all_ = true;           ///< so do others: that goes for run() too
};

} // namespace troupe

#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/replica/memory.hpp"
#include "actors/replica/step_outcome.hpp"
#include "actors/role/context.hpp"
#include "kernels/optimizer/resident_replica.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// Steps of a replica without peers whose device keeps the variables: the host
/// sends micro-batches, and has the variables of a version when it asks for
/// them. All calls from tasks of the executor, or while it is idle.
class ResidentSteps {
public:
  /// Null: the device keeps none.
  /// Errors: those of make_resident_replica().
  static std::unique_ptr<ResidentSteps> on_device(const RoleContext& context,
                                                  LeafComputer& computer);
  ResidentSteps(std::shared_ptr<const Job> job, LeafComputer& computer,
                std::unique_ptr<ResidentReplica> device);

  /// The host's variables have changed: the next step begins with those.
  void forget() { is_there_ = false; }
  /// Takes a step; the variables are read, if the device has none yet. False:
  /// the outcome says why not, and the device is where it was.
  bool take(uint64_t step, UpdateMoment moment, const VariableBanks& variables,
            StepOutcome& outcome);
  /// Copies the device's variables, of `version`, to the host's.
  void read(const VariableBanks& variables, uint64_t version);

private:
  bool compute(uint64_t step, StepGradient& gradient);
  bool sum(uint64_t step, RankRange node, StepGradient& gradient);
  bool update(UpdateMoment moment);

  std::shared_ptr<const Job> job_;
  LeafComputer& computer_;
  std::unique_ptr<ResidentReplica> device_;
  bool is_there_ = false; ///< the device has the variables
};

} // namespace troupe

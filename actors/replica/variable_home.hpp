#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/replica/memory.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// Where a replica's variables are, which its steps read and change: in banks
/// of the host, or on a device that keeps them; then the host has a bank that
/// they pass through. All calls from tasks of the executor, or while it is
/// idle.
class VariableHome {
public:
  virtual ~VariableHome() = default;

  /// The version held is here, whatever is written to the banks.
  virtual bool keeps_version() const { return false; }
  /// These arrays, from now on, are those that sums are left in and come from.
  virtual void use(const std::shared_ptr<FlatArrays>& /*arrays*/) {}
  /// Version `version` of the banks is the one to go on from.
  virtual void write(const VariableBanks& /*banks*/, uint64_t /*version*/) {}
  /// Has the banks hold the version that is here.
  virtual void read(const VariableBanks& /*banks*/, uint64_t /*version*/) {}

  /// Leaves the sums of a step's nodes where the targets say, with all trouble
  /// as LeafComputer::compute.
  virtual StepGradient compute(uint64_t step, const NodeTargets& targets,
                               const VariableBanks& banks) = 0;
  /// Makes the next version by the step's whole sum, which is one of the
  /// arrays. Returns why it cannot: a line for the user.
  virtual std::string update(UpdateMoment moment, float* sum,
                             const VariableBanks& banks) = 0;
  /// Both, of a replica without peers, whose targets are one node. With trouble
  /// the version is where it was.
  virtual StepGradient take_alone(UpdateMoment moment,
                                  const NodeTargets& targets,
                                  const VariableBanks& banks) = 0;
};

} // namespace troupe

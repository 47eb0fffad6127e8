#pragma once

#include "actors/replica/variable_home.hpp"
#include "actors/role/context.hpp"
#include "kernels/optimizer/resident_replica.hpp"

#include <functional>
#include <map>
#include <vector>

namespace troupe {

/// Whether the replicas of a job, each with peers, have devices that keep their
/// variables. All members find the same, of whatever device.
bool devices_keep_variables(const Job& job);

/// Variables on a device, or on several that share a replica's ranks: the host
/// sends micro-batches, adds what the replicas' devices have summed, and has
/// the variables of a version when it asks for them.
class DeviceHome final : public VariableHome {
public:
  /// Null: the role's device keeps none. Errors: those of
  /// make_resident_replica().
  static std::unique_ptr<DeviceHome> of(const RoleContext& context, bool alone,
                                        LeafComputer& computer);
  DeviceHome(std::shared_ptr<const Job> job, LeafComputer& computer,
             std::unique_ptr<ResidentReplica> device);

  bool keeps_version() const override { return true; }
  void use(const std::shared_ptr<FlatArrays>& arrays) override;
  void write(const VariableBanks& banks, uint64_t version) override;
  void read(const VariableBanks& banks, uint64_t version) override;
  StepGradient compute(uint64_t step, const NodeTargets& targets,
                       const VariableBanks& banks) override;
  std::string update(UpdateMoment moment, float* sum,
                     const VariableBanks& banks) override;
  StepGradient take_alone(UpdateMoment moment, const NodeTargets& targets,
                          const VariableBanks& banks) override;

private:
  StepGradient twice(uint64_t step,
                     const std::function<bool(StepGradient&)>& once);
  /// A micro-batch, and how often two sums become one after it.
  struct Pass {
    RankRange ranks;
    uint32_t merges = 0;
  };
  bool sum_all(uint64_t step, const NodeTargets& targets, StepGradient& result);
  bool list(uint64_t step, RankRange node, std::vector<Pass>& passes) const;
  bool sum(uint64_t step, RankRange node, StepGradient& result);
  void compute_passes(uint64_t step,
                      const std::vector<std::vector<Pass>>& passes,
                      StepGradient& result);
  bool update_by_sum(UpdateMoment moment);
  void pin(float* array);

  std::shared_ptr<const Job> job_;
  LeafComputer& computer_;
  std::shared_ptr<FlatArrays> arrays_;
  std::map<float*, std::shared_ptr<void>> pinned_; ///< of arrays_
  std::unique_ptr<ResidentReplica> device_; ///< ends before what it copies to
};

} // namespace troupe

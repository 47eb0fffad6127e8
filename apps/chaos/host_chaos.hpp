#pragma once

#include "apps/chaos/host_job.hpp"
#include "apps/chaos/plan.hpp"
#include "apps/chaos/verdict.hpp"
#include "apps/process/followed_journal.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Strikes hosts and their cables under a job whose roles were started by hand.
class HostChaos {
public:
  HostChaos(HostNetwork& network, HostJob& job, const Plan& plan,
            const std::string& journal);

  using Source = std::function<std::optional<ChaosStrike>(uint64_t left)>;
  /// Strikes until there were `faults`, or the job is over; after each all
  /// members have to be back, and a step to be committed. `steps_after`: as
  /// ChaosRun.
  void strike(const Source& next, uint64_t faults,
              std::optional<uint64_t> steps_after);
  /// Those that took place.
  const std::vector<ChaosStrike>& done() const { return done_; }
  void tell(ChaosEvidence& evidence);

private:
  void strike(const ChaosWish& wish);
  void kill(size_t host, const ChaosWish& wish);
  void cut(size_t host, const ChaosWish& wish);
  void slow(size_t host, const ChaosWish& wish);
  /// Returns false where the job is over, or it is not so in time.
  bool wait_for(const std::function<bool()>& condition);

  HostNetwork& network_;
  HostJob& job_;
  const Plan& plan_;
  FollowedJournal journal_;
  std::vector<ChaosStrike> done_;
  std::vector<ChaosFault> faults_;
  std::vector<std::string> failures_;
};

} // namespace troupe

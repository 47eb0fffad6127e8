#include "apps/bench/recovery_trials.hpp"

// A file of its own: flags name the kinds and start no trial.

namespace troupe {

const std::vector<RecoveryKind>& recovery_kinds() {
  using enum RoleKind;
  static const std::vector<RecoveryKind> kinds{
    {"worker", "kill -9 of a worker", false, false, worker, false, 500, 2'000},
    {"replica", "kill -9 of a worker that all-reduces", true, false, worker,
     false, 500, 2'000},
    {"shard", "kill -9 of a shard in a chain of 2", false, false, shard, false,
     300, 1'000},
    {"coordinator", "kill -9 of the coordinator", false, false, coordinator,
     false, 1'000, 3'000},
    {"standby", "kill -9 of one with a standby", false, true, coordinator,
     false, 1'000, 3'000},
    {"stopped-worker", "SIGSTOP of a worker for 10 s", false, false, worker,
     true, 1'500, 1'500},
    {"stopped-replica", "SIGSTOP of one that all-reduces, 10 s", true, false,
     worker, true, 1'500, 1'500},
    {"stopped-shard", "SIGSTOP of a shard in a chain, 10 s", false, false,
     shard, true, 1'500, 1'500},
    {"stopped-coordinator", "SIGSTOP of one with a standby, 10 s", false, true,
     coordinator, true, 1'500, 1'500}};
  return kinds;
}

} // namespace troupe

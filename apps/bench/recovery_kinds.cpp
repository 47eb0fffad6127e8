#include "apps/bench/recovery_trials.hpp"

// A file of its own: flags name the kinds and start no trial.

namespace troupe {

const std::vector<RecoveryKind>& recovery_kinds() {
  using enum RoleKind;
  constexpr auto* chains = "parameter_server --workers 4 --ps 2 --chain 2 "
                           "--partitioner max_size:65536";
  constexpr auto* reduced = "multi_worker_mirrored --workers 4";
  constexpr auto* stages = "pipeline --stages 4";
  constexpr auto* mesh = "hybrid --mesh data=2,stage=2";
  constexpr auto* tensor_members = "tensor --tensor 4";
  static const std::vector<RecoveryKind> kinds{
    {"worker", "kill -9 of a worker", chains, false, worker, false, 500, 2'000},
    {"replica", "kill -9 of a worker that all-reduces", reduced, false, worker,
     false, 500, 2'000},
    {"shard", "kill -9 of a shard in a chain of 2", chains, false, shard, false,
     300, 1'000},
    {"coordinator", "kill -9 of the coordinator", chains, false, coordinator,
     false, 1'000, 3'000},
    {"standby", "kill -9 of one with a standby", chains, true, coordinator,
     false, 1'000, 3'000},
    {"stage", "kill -9 of a stage of 4", stages, false, stage, false, 100, 500},
    {"mesh-stage", "kill -9 of a stage of 2, in 2 pipelines", mesh, false,
     stage, false, 100, 500},
    {"tensor", "kill -9 of a tensor member of 4", tensor_members, false, tensor,
     false, 100, 500},
    {"stopped-worker", "SIGSTOP of a worker for 10 s", chains, false, worker,
     true, 1'500, 1'500},
    {"stopped-replica", "SIGSTOP of one that all-reduces, 10 s", reduced, false,
     worker, true, 1'500, 1'500},
    {"stopped-shard", "SIGSTOP of a shard in a chain, 10 s", chains, false,
     shard, true, 1'500, 1'500},
    {"stopped-coordinator", "SIGSTOP of one with a standby, 10 s", chains, true,
     coordinator, true, 1'500, 1'500}};
  return kinds;
}

} // namespace troupe

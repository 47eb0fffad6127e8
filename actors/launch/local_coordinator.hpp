#pragma once

#include "actors/coordinator/checkpoint_keeper.hpp"
#include "actors/launch/job_runner.hpp"
#include "actors/launch/run_journal.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/steady_clock.hpp"
#include "monitoring/page_server.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// A coordinator of this process, and what it stands on.
struct LocalCoordinator {
  std::shared_ptr<const Job> job;
  coordinator_actor actor;
  std::shared_ptr<CheckpointLock> lock; ///< of the folder of checkpoints
  std::string metrics_address;          ///< bound; empty: none
};

/// Spawns the coordinator of the job in `options`, or of the one in the past of
/// `journal`, which it goes on with. `began`: when it, or its process, did.
/// `guard`: before metrics that leave the host.
/// Errors: InputError where folder, address or data are not as they should.
LocalCoordinator
start_coordinator(caf::actor_system& system, const RunOptions& options,
                  const JobData& data, const RunJournal& journal,
                  SteadyClock::time_point began,
                  const MakePageGuard& guard = {});

/// Random, never 0.
uint64_t make_job_id();

} // namespace troupe

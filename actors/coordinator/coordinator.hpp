#pragma once

#include "actors/job/checkpoint_options.hpp"
#include "actors/job/job.hpp"
#include "actors/journal/event.hpp"
#include "actors/process/note_queue.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/full_disk.hpp"
#include "strategies/silence_watch.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class MetricExporter;
class PageFeed;
struct JobHistory;

/// What the coordinator does beside deciding membership.
struct CoordinatorOptions {
  uint64_t job_id = 0;
  uint64_t term = 1; ///< counts the coordinators of the job (PROTOCOL 15)
  std::shared_ptr<JournalSink> journal; ///< null: none is kept
  /// What there is to say of the journal.
  std::shared_ptr<NoteQueue> journal_notes = std::make_shared<NoteQueue>();
  /// What others of this process have to say; shown as its own.
  std::shared_ptr<NoteQueue> notes = std::make_shared<NoteQueue>();
  /// What the coordinators before this one left; null: it is the first.
  std::shared_ptr<const JobHistory> past;
  /// When this process began: the one before was dead by then.
  SteadyClock::time_point began = SteadyClock::now();
  /// Where checkpoints are written to, and the journal.
  std::shared_ptr<FullDisk> disk = std::make_shared<FullDisk>();
  std::string save; ///< safetensors file; empty: nothing is saved
  CheckpointOptions checkpoints{};
  uint32_t min_workers = 0; ///< to begin and go on; 0: all begin, one goes on
  /// Progress is told at each multiple of so many steps; 0: as time goes by.
  uint64_t log_every = 0;
  std::string data_fingerprint;
  std::string data_contents;            ///< as roles that join have it
  std::vector<std::string> first_notes; ///< lines for whoever attaches
  std::string isa;                      ///< that holds, for the summary
  bool allow_faults = false;            ///< InjectFault is obeyed
  uint32_t restarts = 5; ///< of a role without a step between, by who starts it
  /// Lays the job out on so many devices, for layers of a member that is gone
  /// for good; called on another thread. Empty: that ends the run.
  struct NewLayout {
    std::string kept; ///< kept_layout()
    std::string line; ///< for people
  };
  std::function<NewLayout(uint32_t devices)> replan;
  std::shared_ptr<PageFeed> page; ///< who shows the run; null: nobody
  /// Whom all members are told to refuse; empty: nobody.
  std::function<std::vector<RevokedMember>()> revoked;
  /// A process reports four times a second; one that is silent for too long is
  /// left out, also when its connection seems alive (it is stopped, or a
  /// network is dead).
  SilenceWatch::Options silence{};
  /// Roles as actors of one process report every second: nothing but a lack of
  /// cores keeps one of them silent.
  uint64_t actor_silence_deadline_ms = 5'000;
  /// One that was left out and has not said hello is asked for again.
  uint64_t return_deadline_ms = 5'000;
  /// Told to end before the first epoch: how long that may take to begin, for
  /// what it begins with to be saved.
  uint64_t stop_deadline_ms = 1'500;
  /// Told to end later: the step under way is finished and saved. The run gives
  /// up when nothing has moved for so long, and three times the last step.
  uint64_t stop_patience_ms = 30'000;
  /// After the end: how long the others may take to read it and go.
  uint64_t leave_deadline_ms = 3'000;
};

/// Spawns the coordinator: decides membership and epochs, hands out leases
/// (async), keeps the account of commits, has snapshots evaluated and saved,
/// and tells observers and supervisors. Never on the path of a step.
coordinator_actor spawn_coordinator(caf::actor_system& system,
                                    std::shared_ptr<const Job> job,
                                    JobData data, CoordinatorOptions options,
                                    std::shared_ptr<MetricExporter> exporter);

} // namespace troupe

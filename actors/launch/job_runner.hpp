#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/job/checkpoint_options.hpp"
#include "actors/job/job.hpp"
#include "actors/process/note_queue.hpp"
#include "actors/wire/messages/faults.hpp"
#include "actors/wire/messages/greeting.hpp"
#include "actors/wire/messages/supervision.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class ChildProcesses;
class HostProcesses;

/// How a run ended, as docs/command_line.md defines exit status and summary.
struct RunResult {
  int status = 1;
  std::string line;    ///< of a failure; otherwise what was saved
  std::string summary; ///< JSON; empty on failure
  bool lost = false;   ///< the coordinator is, and did not tell an end
  /// What recorders of other hosts kept is here, as far as there are any.
  bool all_recorded = true;
};

/// Where a run is told about its progress; called on the caller's thread.
struct RunEvents {
  std::function<void(const Progress&)> progress;
  std::function<void(const DataEpochEnd&)> epoch;
  std::function<void(const Spreads&)> spreads;
  std::function<void(const std::string& line)> note;
  /// Asked ten times a second; a non-empty reason ends the run early.
  std::function<std::string()> stop;
  /// Asked as often; "sync", "async" or "staleness:N" switches the run to that,
  /// an empty text leaves it as it is. What became of it is a note.
  std::function<std::string()> consistency;
  /// Told in a coordinator's process: the run is over, and its observers
  /// elsewhere may not have read so yet. May add to the result what became of
  /// other files.
  std::function<void(RunResult&)> over;
  /// Asked as often, while no earlier answer is under way; "shards add 1" and
  /// such (strategies/reshape.hpp) changes the run, an empty text does not.
  std::function<std::string()> reshape;
  /// The change was made, or will not be: why. On another thread.
  std::function<void(bool done, const std::string& line)> reshaped;
};

struct RunOptions {
  JobOptions job;
  std::string save;
  CheckpointOptions checkpoints{};
  uint32_t min_workers = 0;    ///< as CoordinatorOptions
  uint64_t log_every = 0;      ///< the same
  std::string metrics_address; ///< HOST:PORT; empty: no exporter
  std::string metrics_token;   ///< file; made where metrics leave the host
  /// Of a run without processes, whose metrics alone leave the host.
  CertificateSource certificates{};
  std::string journal;       ///< file; empty: none is kept
  bool allow_faults = false; ///< InjectFault is obeyed
  /// Of a role's process, without a step committed between them.
  uint32_t restarts = 5;
  bool replans = false; ///< CoordinatorOptions::replan
  std::string flight;   ///< folder of flight recorders; empty: none
  /// Where coordinators may be that follow this one.
  std::vector<std::string> standby_hosts;
  /// When this process began: one that follows a coordinator that died knows of
  /// no earlier moment. A standby counts from when it leads.
  SteadyClock::time_point began = SteadyClock::now();
  RunEvents events;
  /// What threads that know no coordinator have to say in its name.
  std::shared_ptr<NoteQueue> notes = std::make_shared<NoteQueue>();
  /// Whom all members are told to refuse; empty: nobody.
  std::function<std::vector<RevokedMember>()> revoked;
};

/// Runs every role as an actor of this process.
/// Errors: UsageError and InputError for what is wrong with the job.
RunResult run_in_process(const RunOptions& options, const JobData& data);

/// Asks a running job's coordinator at HOST:PORT to go on as "sync", "async" or
/// "staleness:N", and waits until it does. Returns a line that says so.
/// Errors: InputError, with what the coordinator has against it.
std::string switch_consistency(const std::string& coordinator,
                               const CertificateSource& certificates,
                               const std::string& mode);

/// Asks a running job's coordinator to change who takes part, or who keeps what
/// (strategies/reshape.hpp), and waits until it is so. Returns a line that says
/// what became of it.
/// Errors: InputError, with what the coordinator has against it.
std::string reshape_job(const std::string& coordinator,
                        const CertificateSource& certificates,
                        const std::string& what);

/// Runs the coordinator (with its evaluator) in this process and waits for the
/// other roles, which are started elsewhere. With a journal that is there, it
/// goes on with the job of that. With voters it is a standby until it leads.
struct CoordinatorProcess {
  bool launched = false; ///< somebody waits for signs of life at the end
  std::string listen = "127.0.0.1:0";
  CertificateSource certificates;
  /// HOST:PORT of all that keep the journal, the same for each coordinator; one
  /// of them is in this process. Empty: nobody else does.
  std::vector<std::string> voters;
  uint32_t voter = 0; ///< which
};
/// The exit status of a coordinator that another one has taken over from; it
/// may be started again as that one's standby.
inline constexpr int deposed_status = 75;
RunResult run_coordinator_process(const RunOptions& options,
                                  const JobData& data,
                                  const CoordinatorProcess& process);

/// Runs every role as a process of its own, supervised by this one.
struct LaunchOptions {
  std::string program; ///< path of the troupe executable, a name to be seen by
  /// Arguments that make `program` the job's coordinator.
  std::vector<std::string> coordinator_arguments;
  std::vector<std::string> standby_arguments; ///< its standby; empty: none
  /// Where the two listen, HOST:PORT,HOST:PORT; empty: the first one says.
  std::string coordinators;
  std::string voter;       ///< HOST:PORT of this process's; empty: none
  Credentials credentials; ///< this process's own
  /// Where a process that it starts, or an operator, finds its own.
  std::function<std::string(const MemberName&)> certificates;
  std::function<void()> renewed; ///< this process's were; may be empty
  /// Those that a member was issued until then hold no longer; told again and
  /// again, may be empty.
  std::function<void(const MemberName&, int64_t until)> revoked;
  std::string journal; ///< of the coordinator, or of this process's voter
  /// Roles that are started here, besides the coordinator; empty: all.
  std::vector<RoleId> roles;
  /// Runs the processes; null: one is made.
  std::shared_ptr<ChildProcesses> processes;
  /// Where a role other than the coordinator is played; null: by a child of
  /// this process.
  std::function<std::shared_ptr<HostProcesses>(RoleId)> host_of;
  /// With it, of a job whose layers may be dealt anew: how many devices are
  /// left (SupervisorOptions), and where the roles of another plan are played
  /// from then on. The latter's errors: InputError.
  std::function<uint32_t(RoleId gone)> devices_left;
  std::function<void(const Plan&)> place;
  /// Receives each line that a role prints; on another thread.
  std::function<void(const std::string& role, const std::string& line)> on_line;
};
RunResult run_processes(const RunOptions& options, const LaunchOptions& launch);

/// The line by which a coordinator's process says where it listens.
inline constexpr const char* listening_prefix = "coordinator listens on ";

} // namespace troupe

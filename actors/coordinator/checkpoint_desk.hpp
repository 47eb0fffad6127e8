#pragma once

#include "actors/coordinator/checkpoint_keeper.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/engine/executor.hpp"
#include "strategies/consistency_switch.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The coordinator's checkpoints while a job runs: owners are asked for a
/// version ahead of time, send it while they go on, and it is written on an
/// executor of its own. Owner: the coordinator's actor.
class CheckpointDesk {
public:
  struct Calls {
    std::function<void(uint64_t version)> ask; ///< owners for a snapshot
    std::function<void(const std::string& line)> note;
    std::function<void()> written; ///< or not: the next may be due
  };

  CheckpointDesk(coordinator_actor::pointer self,
                 std::shared_ptr<const Job> job, CheckpointOptions options,
                 std::string fingerprint, MetricRegistry& registry,
                 FileSystem& files, Calls calls);

  /// A member of the epoch that begins computes in it.
  void computes_in(const std::string& numeric_class);
  /// As CheckpointKeeper::numeric_classes(); resume(): of the coordinator
  /// before.
  const std::vector<std::string>& numeric_classes() const {
    return keeper_.numeric_classes();
  }
  void resume(std::vector<std::string> numeric_classes) {
    keeper_.resume(std::move(numeric_classes));
  }
  /// So many steps are committed; asks if one is due. `at_once`: as
  /// CheckpointSchedule::due().
  void look(uint64_t committed, bool at_once);
  /// What was asked for is asked of a new epoch's members.
  void ask_again(uint64_t committed);
  /// A snapshot is whole: writes it if it was asked for.
  void arrived(const Snapshot& whole, const Consistency& period);
  /// The run's last state is kept like every other. Returns whether it is, or
  /// cannot be; otherwise `written` is called when it is.
  bool is_last_written(const Snapshot& last, const Consistency& period,
                       const char* cause);
  /// Keeps a snapshot like every other, unless the newest checkpoint is that
  /// already; then calls then(outcome), with what became of it.
  void keep(const Snapshot& snapshot, const Consistency& period,
            const char* cause,
            std::function<void(const CheckpointOutcome&)> then);
  /// The newest that a run can go on from, whole; none: there is no such.
  std::optional<CheckpointOutcome> newest_whole() const;
  /// Says where a rollback leads: to the newest checkpoint where that is newer,
  /// else to where the job began.
  void go_back(Activate& message, ConsistencySwitch& period);

  uint64_t written() const { return keeper_.written(); }
  /// Shows for how long one has been written by now.
  void show_under_way(MetricRegistry& registry) const;
  /// After is_last_written(): where the last one is; or why it is not.
  std::string last_folder() const;
  std::string last_failure() const { return last_failure_; }

private:
  void write(const Snapshot& snapshot, const Consistency& period,
             const char* cause,
             std::function<void(const CheckpointOutcome&)> then = {});

  coordinator_actor::pointer self_;
  std::shared_ptr<const Job> job_;
  CheckpointKeeper keeper_;
  Calls calls_;
  size_t under_way_ = 0;
  SteadyClock::time_point under_way_since_; ///< the first of them
  bool asked_for_last_ = false;
  std::string last_failure_;
  std::shared_ptr<Executor> executor_; ///< ends before what it reads
};

} // namespace troupe

#pragma once

#include "actors/job/checkpoint_folder.hpp"
#include "actors/job/checkpoint_options.hpp"
#include "actors/job/snapshot_book.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "monitoring/metrics.hpp"
#include "strategies/checkpoint_schedule.hpp"
#include "strategies/consistency.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What a run that writes checkpoints, or begins with one, found in its folder.
struct CheckpointStart {
  std::shared_ptr<CheckpointLock> lock; ///< null: none are written
  std::string resume_from;              ///< folder; empty: from the beginning
  std::vector<std::string> notes;       ///< lines for the user
  /// Newer than that; they lie where they lay.
  std::vector<DamagedCheckpoint> damaged;
};

/// Whose are checkpoints that nobody said to go on from.
enum class Starting : uint8_t {
  anew,    ///< a run: of another one
  again,   ///< a run whose start before ended as it wrote its initial weights:
           ///< that of step 0 is its own
  follows, ///< a coordinator that takes over a run under way: of that one
};

/// Takes the folder, and finds what the run begins with.
/// Errors: InputError (the folder cannot be used, another run uses it, it holds
/// checkpoints of another one and `resume` is not set; one cannot be read; all
/// are damaged and `fresh` is not set).
CheckpointStart start_checkpoints(const CheckpointOptions& options,
                                  Starting starting = Starting::anew);

/// Renames the damaged ones, and notes them first: once the start is not
/// refused any more.
void keep_damaged_aside(CheckpointStart& start);

/// Finds out whether a checkpoint of the job can be written there.
/// Errors: InputError (the folder cannot be written; there is no room).
void try_checkpoints(const Job& job, const CheckpointOptions& options);

/// Compares what the processes without data could not, and adds a line for what
/// differs and may.
/// Errors: InputError for other data.
void check_resumed(const Job& job, const std::string& fingerprint,
                   std::vector<std::string>& notes);

/// Says in a manifest what the job is, and when and by whom it is written.
void describe_checkpoint(const Job& job, const std::string& fingerprint,
                         CheckpointManifest& manifest);

/// What became of writing one checkpoint.
struct CheckpointOutcome {
  uint64_t step = 0;
  bool whole = true; ///< CheckpointManifest::whole
  std::string folder;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string failure; ///< one line; empty: it is written
};

/// The coordinator's checkpoints: when one is due, what is written, which go.
/// write() is called on an executor of its own, one at a time.
class CheckpointKeeper {
public:
  CheckpointKeeper(std::shared_ptr<const Job> job, CheckpointOptions options,
                   std::string fingerprint, MetricRegistry& registry,
                   FileSystem& files = real_files());

  bool enabled() const { return !options_.dir.empty(); }
  CheckpointSchedule& schedule() { return schedule_; }

  /// A member of the job computes in it, too, from now on. Returns a line for
  /// the user where the steps that the run goes on from were computed in
  /// others.
  std::string computes_in(const std::string& numeric_class);
  /// In which the steps up to now were computed, the newest last; those of runs
  /// before where their checkpoint says so, else `unknown_class` for them.
  const std::vector<std::string>& numeric_classes() const {
    return numeric_classes_;
  }
  /// As the coordinator before had them.
  void resume(std::vector<std::string> numeric_classes) {
    if (!numeric_classes.empty()) // those of older programs name none
      numeric_classes_ = std::move(numeric_classes);
  }
  static constexpr const char* unknown_class = "unknown";

  /// Writes a snapshot of steps that were computed in those classes, then
  /// removes what is too old.
  CheckpointOutcome write(const Snapshot& snapshot, const Consistency& period,
                          const std::string& cause,
                          const std::vector<std::string>& numeric_classes);
  /// Takes note of it. Returns a line for the user where there is something
  /// new to say.
  std::string took(const CheckpointOutcome& outcome);

  uint64_t written() const { return written_; }
  /// The newest that was written, or that the run began with.
  const std::optional<CheckpointOutcome>& newest() const { return newest_; }

private:
  std::shared_ptr<const Job> job_;
  CheckpointOptions options_;
  std::string fingerprint_;
  CheckpointSchedule schedule_;
  MetricRegistry& registry_;
  CheckpointFolder folder_; ///< of write()
  std::vector<std::string> numeric_classes_;
  uint64_t written_ = 0;
  std::optional<CheckpointOutcome> newest_;
  std::string last_failure_; ///< that the user was told of; empty: none lasts
};

} // namespace troupe

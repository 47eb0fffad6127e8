#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// When a running job's checkpoints are asked for. One is under way at a time:
///
///   idle --due()--> asked --arrived()--> writing --written()--> idle
///     ^               |
///     +--- missed ----+   who keeps the state had gone past the version
///
/// Synchronous owners keep a version for a step or two and report commits
/// without waiting, so a version is asked for some steps ahead; each miss
/// doubles how many. Whatever the disk cannot take is left out, not queued.
class CheckpointSchedule {
public:
  struct Options {
    uint64_t every = 0; ///< steps; 0: none is ever due
    uint64_t from = 0;  ///< the job began with so many steps
    /// An owner that has a version sends it within this.
    uint64_t patience_ms = 1'000;
  };

  explicit CheckpointSchedule(Options options) : options_(options) {}

  /// So many steps are committed. Returns the version to ask for now, if any:
  /// a multiple of `every` ahead of it; `at_once` (asynchronous, where owners
  /// send what they have): `committed` itself, once it is past one.
  std::optional<uint64_t> due(uint64_t committed, bool at_once,
                              uint64_t now_ms);
  /// Another epoch began: what was asked of the old one's members may not come.
  /// Returns what to ask the new ones for.
  std::optional<uint64_t> again(uint64_t committed, uint64_t now_ms);
  /// A snapshot of `version` is whole. Tells whether it was asked for.
  bool arrived(uint64_t version);
  /// What had arrived is written, or could not be.
  void written();
  /// The job went back to `version`.
  void rolled_back(uint64_t version);

  bool writing() const { return state_ == State::writing; }
  uint64_t lead() const { return lead_; } ///< steps

private:
  enum class State { idle, asked, writing };
  static constexpr uint64_t max_lead = 4096;

  Options options_;
  State state_ = State::idle;
  uint64_t version_ = 0; ///< asked for, or being written
  uint64_t last_ = 0;    ///< no version up to it is asked for (again)
  uint64_t lead_ = 2;
  std::optional<uint64_t> passed_ms_; ///< since when `version_` is committed
};

/// A checkpoint of the folder. Units: steps.
struct KeptCheckpoint {
  uint64_t step = 0;
  bool old = false; ///< it was there when the run began
};

/// Which of these checkpoints, newest first, are to be removed so that `keep`
/// stay. Returns places in the list. One of a step that a newer one replaces
/// goes. `needed` stays in any case: the run began with it. Of the old ones,
/// which were `old_at_start`, none goes before there are as many new ones, or
/// `keep` of them; but the oldest do with any new one while more than twice
/// `keep` are there.
std::vector<size_t>
checkpoints_to_remove(const std::vector<KeptCheckpoint>& there, size_t keep,
                      std::optional<size_t> needed, size_t old_at_start);
/// The one to remove where there is no room for another: the oldest of the old
/// ones, once for each new one, or else the oldest of several new ones.
/// `removed`: so many old ones are gone already.
std::optional<size_t>
checkpoint_that_makes_room(const std::vector<KeptCheckpoint>& there,
                           std::optional<size_t> needed, size_t removed);

} // namespace troupe

#pragma once

#include "strategies/leases.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Who keeps the variables of a job, and whether they go step by step: what one
/// way of going on after an epoch change differs from another in (PROTOCOL 9).
enum class ResumeMode : uint8_t {
  slices,    ///< shards or stages keep all, step by step
  replicas,  ///< every worker keeps all
  both,      ///< shards keep rows and every worker the rest, step by step
  free_rows, ///< the same, where rows run free (free_rows.hpp)
  leases,    ///< shards keep all, lease by lease
};

/// The versions of a slice that an owner can serve, or of all that a worker
/// keeps.
struct Restorable {
  uint64_t oldest = 0;
  uint64_t newest = 0;
};

/// Leases that a job relies on: those that are known to be consumed, or how
/// many an earlier coordinator had counted, where nobody knows which.
struct KnownLeases {
  LeaseSet acknowledged;
  std::optional<uint64_t> counted;
};

/// What those who have sealed hold between them, and what the job relies on.
struct SealedState {
  std::vector<Restorable> slices; ///< on shards or stages: of each chain's head
  /// The newest version that all replicas of every slice hold. A version that a
  /// head alone has may be gone with it; the replicas before the tail are a
  /// step ahead at most, and serve the one before still.
  uint64_t everywhere = ~uint64_t{0};
  std::vector<Restorable> replicas; ///< workers, by place
  /// By tail: the leases that its slices have applied, and what their heads
  /// have, which it is given before it serves: whoever is in one is in both.
  std::map<uint32_t, LeaseSet> applied, promised;
  /// What was decided of the newest step may be lost with all who knew it.
  bool undecided = false;

  uint64_t committed = 0; ///< steps that are known to be
  KnownLeases leases;
};

enum class ResumeVerdict : uint8_t {
  go_on,         ///< nothing that was committed is undone
  roll_back,     ///< steps are undone: all go back to `version`, or to a
                 ///< whole checkpoint that is as new or newer
  compute_again, ///< leases are lost, and are handed out once more
};

/// Where every role goes on.
struct Resume {
  ResumeVerdict verdict = ResumeVerdict::go_on;
  /// What members are told.
  struct Message {
    /// Of a rollback the newest that survives, or 0: where the job began.
    uint64_t version = 0;
    bool synchronise = false; ///< some replicas lack it: they take it ...
    uint32_t source = 0;      ///< ... from here, the lowest place that has it
  } message;
  uint64_t lost_leases = 0;
  std::string reason;

  bool rolls_back() const { return verdict == ResumeVerdict::roll_back; }
};

/// Decides where a job goes on after an epoch change.
///
/// Slices: the lowest newest version, if every slice still has it and no step
/// that was committed is undone by it (so it is as long as no owner has lost
/// its state).
///
/// Replicas: the newest version that any has, for a step that one of them has
/// reduced whole is committed. It is a rollback only if all that had a
/// committed version are gone.
///
/// Both: the newest version that every slice has and some replica had whole,
/// which is at most a step behind either. So a step is repaired as long as one
/// side has not finished it, and both go on alike. Only what all replicas of a
/// chain can serve counts, for the source of a version that one of them lacks
/// may be gone before that has it, and workers keep nothing older than what
/// they began at; unless steps were counted that not all have, as a replica was
/// away.
///
/// Free rows: workers alone say where the job goes on. It is a rollback if all
/// that had a committed version are gone, or a chain has lost acknowledged
/// leases: of rows nobody keeps an older version.
///
/// Leases: each slice goes on with those that it has. What was consumed, and
/// some slice neither has nor is given, is lost.
///
/// Errors: no replicas, or no promised leases, where the mode needs them, are a
/// bug and assert.
Resume decide_resume(const SealedState& sealed, ResumeMode mode);

} // namespace troupe

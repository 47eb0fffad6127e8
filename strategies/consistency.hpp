#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// How the workers of a parameter server are kept together, from some step on:
/// a *period*. It changes only with an epoch, between two whole steps, so every
/// slice has had the same number of updates when a period begins.
///
/// In a synchronous period a slice's version is the step it is ready for; in an
/// asynchronous one, the number of updates it has had since the job began. The
/// two agree until the first switch; count_from() is what lies between them
/// afterwards.
struct Consistency {
  bool async = false;
  int64_t staleness = -1; ///< async: the bound on leads; -1: none
  uint64_t period = 0;    ///< counts them
  uint64_t step = 0;      ///< that it began with
  uint64_t updates = 0;   ///< that each slice had had then

  /// What is taken off a slice's count of updates to get its version.
  uint64_t count_from() const { return async ? 0 : updates - step; }
  /// The step of learning rates and reports for the update after `version`
  /// (PROTOCOL 12).
  uint64_t step_of(uint64_t version, uint32_t virtual_ranks) const {
    return async ? step + (version - updates) / virtual_ranks : version;
  }
  /// The period that follows at `next_step`, which must be whole.
  Consistency next(bool async, int64_t staleness, uint64_t next_step,
                   uint32_t virtual_ranks) const;

  friend bool operator==(const Consistency&, const Consistency&) = default;
};

/// "sync", "async" or "staleness:N".
std::string to_string(const Consistency& consistency);
/// Errors: returns false for anything else; only the mode is filled in.
bool parse(const std::string& text, Consistency& consistency);

} // namespace troupe

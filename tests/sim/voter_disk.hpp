#pragma once

#include "actors/journal/folding.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace troupe::sim {

/// What outlives a voter's process. A change takes its time, in which the voter
/// waits; one during which the process dies is there whole or not at all.
struct VoterDisk {
  std::vector<JournalEvent> events;
  uint64_t promised = 0;
  uint64_t slow_until = 0;
  uint64_t stuck_until = 0;      ///< a change takes seconds
  uint64_t unreadable_until = 0; ///< by a process that begins

  /// The disk at a path, made where there is none.
  static VoterDisk& at(const std::string& path);
  /// Makes all of them empty.
  static void clear();
  bool empty() const { return events.empty() && promised == 0; }
  /// Errors: InputError where it cannot be read now.
  void open() const;
  /// As if nothing had been there.
  void create();

  void append(std::vector<JournalEvent>& batch);
  void fold(uint64_t until, FoldLimits limits);
  void replace(std::vector<JournalEvent> with);
  void cut(uint64_t keep);
  void promise(uint64_t term);
  /// The voter's process has died.
  void crash();
  /// Whether an epoch is there, and would be after a crash now.
  bool has_epoch(uint64_t term, uint64_t epoch) const;
  bool knows_end() const;

private:
  /// How a change is undone that is not over at `end`.
  struct Change {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t promised = 0; ///< before it
    size_t kept = 0;       ///< events that it left as they were
    std::vector<JournalEvent> removed{};
  };
  void begin(Change change);
  static void undo(const Change& change, std::vector<JournalEvent>& events);

  std::deque<Change> changes_; ///< the newest, which may be under way
};

} // namespace troupe::sim

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// One line of a job's journal: what its coordinator decided or saw. The kinds,
/// and what each says, are those of job_journal.hpp.
struct JournalEvent {
  uint64_t id = 0;      ///< from 1, ascending; given when it is written
  uint64_t unix_ms = 0; ///< by the clock of the coordinator's machine
  uint64_t term = 0;    ///< of the coordinator
  std::string kind;
  std::string body; ///< a JSON object
};

/// Brackets in brackets of a body: an event has four. The options of its job
/// are text.
inline constexpr size_t max_body_depth = 16;

/// Where a coordinator's journal goes.
class JournalSink {
public:
  virtual ~JournalSink() = default;

  /// Writes the event after those before it; never blocks. `synced`, if any, is
  /// called on another thread once it would outlive this machine's power.
  virtual void append(JournalEvent event, std::function<void()> synced) = 0;
  /// False: another coordinator may be writing it by now. Any thread.
  virtual bool leads() const { return true; }
};

} // namespace troupe

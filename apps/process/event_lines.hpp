#pragma once

#include "actors/journal/event.hpp"
#include "apps/settings/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// "2026-11-25 17:48:22.123" by this host's time zone.
std::string wall_clock(uint64_t unix_ms);

/// What `troupe events` prints of a journal, event by event. Whatever a body
/// holds, a line is one line and steers no terminal.
class EventLines {
public:
  explicit EventLines(const EventsOptions& wanted) : wanted_(wanted) {}

  /// The next event's line, without its end; none: it is not wanted.
  /// Errors: InputError, where its body does not say what its kind says.
  std::optional<std::string> line(const JournalEvent& event);

private:
  const EventsOptions& wanted_;
  std::optional<uint64_t> began_; ///< unix_ms of the first
  uint64_t step_ = 0;             ///< that the journal has come to
};

/// Makes one of commits between which nothing else happened: a row is written
/// ten times a second, whatever the steps say.
std::vector<JournalEvent> gathered(std::vector<JournalEvent> events);

} // namespace troupe

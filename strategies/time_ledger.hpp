#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// What a role's time went to.
enum class TimeCause : uint8_t {
  compute,    ///< passes through the model, sums and updates
  exchange,   ///< asking for, sending and awaiting what others have
  data,       ///< waiting for samples
  start,      ///< from the run's begin to the first thing that it did
  recovery,   ///< from the last thing that a life did to the next one's first
  unrecorded, ///< before the oldest span that its recorder still has
  idle,       ///< the rest
};
inline constexpr size_t time_causes = 7;
const char* to_string(TimeCause cause);

/// From when to when, in nanoseconds of one clock.
struct TimeSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

/// How long there was some of each, where spans overlap as in a ledger: data
/// before compute, that before exchange.
struct BookedTime {
  int64_t data = 0;
  int64_t compute = 0;
  int64_t exchange = 0;

  BookedTime& operator+=(const BookedTime& more);
};

/// What a life did before the spans that are still known, or what lives did
/// that are known no more; booked already.
struct EarlierTime {
  TimeSpan span; ///< from the first one on
  BookedTime booked;
  int64_t recovery = 0; ///< between lives

  /// A life that came later, of which all is known that counts. What of it
  /// overlaps with those before is booked as their idling.
  void follow(const EarlierTime& life);
};

/// One process of a role.
struct RoleLife {
  std::vector<TimeSpan> compute;
  std::vector<TimeSpan> exchange;
  /// Whether these are all that there were; else older ones were written over,
  /// or lives before it are not known.
  bool whole = true;
  std::vector<TimeSpan> data{}; ///< waits for samples, in compute or beside it
  /// Of other spans only what comes after it counts.
  std::optional<EarlierTime> earlier{};

  BookedTime booked(TimeSpan within) const;
};

/// Nanoseconds by cause. Their sum is the run's length, whatever the spans are.
using TimeLedger = std::array<int64_t, time_causes>;

/// Books each nanosecond of a run to one cause: where spans overlap, data comes
/// before compute, and that before exchange. `lives`: in any order; what they
/// did outside of the run counts for nothing. `run` must not end before it
/// begins.
TimeLedger time_ledger(const std::vector<RoleLife>& lives, TimeSpan run);

} // namespace troupe

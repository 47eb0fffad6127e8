#pragma once

#include "strategies/growing_rest.hpp"

#include <cstdint>

namespace troupe {

/// How a try to fetch bytes from a store ended.
enum class FetchEnd : uint8_t {
  whole,       ///< all that was asked for is there
  unresolved,  ///< the host's name has no address
  unreachable, ///< no connection
  untrusted,   ///< TLS: its certificate is not trusted, or no way to talk
  cut,         ///< the connection ended before all had come
  stalled,     ///< too little came for too long
  busy,        ///< the server says: later (429, 503)
  failed,      ///< the server says: my fault (500, 502, 504, 408)
  refused,     ///< 401, 403
  missing,     ///< 404, 410
  changed,     ///< the object is not the one that was opened
  no_ranges,   ///< the server sends the whole object when asked for a part
  odd,         ///< an answer that no server should give
  ended,       ///< this process ends
};
const char* to_string(FetchEnd end);

/// Whether a fetch is tried again after a try, and why.
struct TryVerdict {
  bool again = false;
  uint64_t rest_ms = 0; ///< before it is
  const char* reason = "";
};

/// The tries of one fetch. What another try may mend is tried again, with
/// growing rests, until the deadline; a host that has never answered gets few
/// tries, since its name is most likely wrong. Pure: time and chance are
/// arguments.
class FetchTries {
public:
  struct Options {
    uint64_t deadline_ms = 60'000; ///< for all tries together
    uint32_t unknown_tries = 4;    ///< of a host that has never answered
    GrowingRest::Options rest{100, 5'000};
  };

  FetchTries(const Options& options, bool has_answered, uint64_t now_ms);

  /// Until the deadline; 0: it is over.
  uint64_t left_ms(uint64_t now_ms) const;
  uint32_t tries() const { return tries_; } ///< that have ended

  /// `later_ms`: what the server asked to wait for, or 0. `drawn` as for
  /// GrowingRest.
  TryVerdict ended(FetchEnd end, uint64_t now_ms, uint64_t later_ms,
                   uint64_t drawn);

private:
  Options options_;
  GrowingRest rest_;
  uint64_t until_ms_;
  bool has_answered_;
  uint32_t tries_ = 0;
};

} // namespace troupe

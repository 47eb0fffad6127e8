#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Tells whether nothing has come on a TCP connection for so long, though the
/// system asked the other side again and again: a cable is cut, or a host gone.
/// A peer that merely takes nothing still answers. False of any other socket.
/// Source: Linux, tcp(7), TCP_INFO.
bool is_cut(int descriptor, std::chrono::milliseconds patience);

/// That in words: "has not answered for 3.0 s".
std::string no_answer(std::chrono::milliseconds patience);

/// What a TCP connection has carried, and how.
struct CableCounts {
  uint64_t delivered_bytes = 0; ///< that the other side's system acknowledged
  double busy_seconds =
    0; ///< bytes were on their way, and there was room there
  /// What is unacknowledged was sent again, or a question has no answer yet.
  bool tries_again = false;
};

/// Empty for any other socket, and on systems that do not tell.
/// Source: Linux, include/uapi/linux/tcp.h, struct tcp_info.
std::optional<CableCounts> cable_counts(int descriptor);

/// Since when nothing gets through, of one connection that is looked at again
/// and again. A peer that takes nothing, but whose system answers, does not
/// count.
class StalledCable {
public:
  /// In seconds; 0: what is sent gets through, or nothing is.
  double look(const CableCounts& counts, SteadyClock::time_point now);

private:
  uint64_t delivered_ = 0;
  SteadyClock::time_point since_ = SteadyClock::time_point::min();
};

/// Ends a TCP connection by a reset, now, though its owner, who may be writing,
/// keeps the descriptor. The other side hears of it: the end of a stream would
/// wait behind what does not get through (as where large packets get lost), and
/// the other side for good. From any thread.
/// Source: Linux, connect(2), AF_UNSPEC.
void reset_cable(int descriptor);

} // namespace troupe

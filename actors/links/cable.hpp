#pragma once

#include <chrono>
#include <string>

namespace troupe {

/// Tells whether nothing has come on a TCP connection for so long, though the
/// system asked the other side again and again: a cable is cut, or a host gone.
/// A peer that merely takes nothing still answers. False of any other socket.
/// Source: Linux, tcp(7), TCP_INFO.
bool is_cut(int descriptor, std::chrono::milliseconds patience);

/// That in words: "has not answered for 3.0 s".
std::string no_answer(std::chrono::milliseconds patience);

/// Ends a TCP connection by a reset, now, though its owner, who may be writing,
/// keeps the descriptor. The other side hears of it: the end of a stream would
/// wait behind what does not get through (as where large packets get lost), and
/// the other side for good. From any thread.
/// Source: Linux, connect(2), AF_UNSPEC.
void reset_cable(int descriptor);

} // namespace troupe

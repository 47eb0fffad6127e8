#pragma once

#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"

#include <sys/types.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace troupe {

/// What goes one way over one link.
struct LinkStream {
  std::vector<char> bytes = std::vector<char>(size_t{256} << 10);
  size_t begin = 0;
  size_t end = 0;
  bool ended = false;  ///< by who sends
  bool passed = false; ///< something, ever
  bool stands = false;
  bool slow = false; ///< little is taken at a time
  bool late = false; ///< what is taken goes on later
  std::chrono::steady_clock::time_point not_before;

  bool may_send() const;
};

/// A connection that was dialled through a FaultProxy. Ends 0 and 1: who
/// dialled, and whom.
struct ProxiedLink {
  std::array<Descriptor, 2> ends;
  std::array<std::string, 2> roles;
  std::string line;                  ///< of who dials, as far as it is there
  std::array<LinkStream, 2> streams; ///< from end i to the other
  bool control = false;              ///< to the coordinator

  bool connected() const { return static_cast<bool>(ends[1]); }
  /// False: nobody can be there.
  bool dial(const SocketAddress& address);
  /// Reads who dials whom where, and dials. False: it is no such line, or
  /// nobody is there.
  bool introduce();
  /// Takes bytes from that end, if there is room. Returns how many; less than
  /// 0: the link is at its end.
  ssize_t receive(size_t from);
  /// Passes on what may go. False: the link is at its end.
  bool send(size_t from);
  /// Whether something from that end stands before the proxy, or in it.
  bool waits(size_t from) const;
};

/// Errors: InputError where it cannot listen.
Descriptor listen_here(uint16_t port = 0);
/// Whether somebody accepts connections there.
bool listens(const SocketAddress& address);
/// Where a listener of this host is reached: HOST:PORT.
std::string address_of(const Descriptor& listener);

} // namespace troupe

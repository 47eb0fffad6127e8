#pragma once

#include "actors/sockets/descriptor.hpp"

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// A socket address of TCP (version 4 or 6) or of this host's sockets.
class SocketAddress {
public:
  /// Errors: nullopt unless `host` is an address in digits.
  static std::optional<SocketAddress> of_number(const std::string& host,
                                                uint16_t port);
  /// Looks a name up, or reads digits; it may wait. IPv4 goes first.
  static std::optional<SocketAddress> find(const std::string& host,
                                           uint16_t port);
  /// Abstract: no file, gone with the process.
  static std::optional<SocketAddress> of_unix_name(const std::string& name);
  /// Where a socket is bound to.
  static SocketAddress of_socket(int descriptor);
  static SocketAddress of_peer(int descriptor);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  socklen_t size() const { return size_; }
  std::string host() const; ///< in digits
  /// Whom it belongs to as far as one can tell: an address of IPv4, the first
  /// 64 bits of one of IPv6.
  std::string network() const;
  uint16_t port() const;
  /// 0.0.0.0 or ::.
  bool is_any() const;

private:
  sockaddr_storage storage_{};
  socklen_t size_ = sizeof(sockaddr_storage);
};

/// Makes a non-blocking stream socket for an address; on TCP without delay and
/// with signs of life. Errors: -1 and errno.
int open_socket(const SocketAddress& address);
void prepare_tcp(int descriptor);

/// Of a listening socket: nobody is accepted before it has said something, or
/// has been silent for some three seconds.
void accept_speakers(int descriptor);
/// Closes a connection without a word, and the other side is told so at once:
/// by a reset, which overtakes what is lost on the way before it.
void send_away(Descriptor connection);

struct Connecting {
  Descriptor socket; ///< non-blocking; none: see `why`
  std::string why;
};
/// Connects to HOST:PORT, and blocks for no longer than that.
Connecting connect_tcp(const std::string& host, uint16_t port,
                       std::chrono::milliseconds deadline);

/// Whether the other end of a socket of this host belongs to this user.
bool same_user(int descriptor);

/// How many guests a door of this process may have: a quarter of the
/// descriptors that it may open, from 16 to `most`.
size_t guests_allowed(size_t most);

/// Errors: an invalid one when the process is out of descriptors.
Descriptor duplicate(int descriptor);

/// The address by which this machine reaches a host, in digits; empty: it does
/// not.
std::string own_address_towards(const std::string& host);

/// The first address of this machine beyond loopback, in digits, of IPv6 where
/// there is no other; empty: none.
std::string first_own_address();

} // namespace troupe

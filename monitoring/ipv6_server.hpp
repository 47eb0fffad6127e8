#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Serves /metrics over HTTP at an IPv6 address, which the library's web server
/// has no word for: GET alone, a connection a request, at most 32 at a time and
/// each within a second.
class Ipv6Server {
public:
  /// Binds `host`, in digits, and `port`, 0 for any; `text` makes the answer,
  /// on the server's thread.
  /// Errors: std::system_error of the call that failed.
  Ipv6Server(const std::string& host, uint16_t port,
             std::function<std::string()> text);
  ~Ipv6Server();

  uint16_t port() const; ///< that is really bound

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe

#pragma once

#include <string>

namespace troupe {

/// A free TCP port that nobody else gets while this lives: a process started
/// from here is told of it before it listens there. Linux: a bound socket that
/// does not listen lets one with SO_REUSEADDR listen beside it.
class ReservedPort {
public:
  /// Errors: InputError where HOST has no address of this machine, or no port
  /// is left.
  explicit ReservedPort(const std::string& host);
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  /// HOST:PORT
  const std::string& address() const { return address_; }

private:
  int handle_ = -1;
  std::string address_;
};

} // namespace troupe

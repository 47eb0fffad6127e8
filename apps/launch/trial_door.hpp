#pragma once

#include "actors/sockets/descriptor.hpp"

#include <string>

namespace troupe {

/// A port that others may try to connect to, answered by the system alone, as
/// long as it lives.
class TrialDoor {
public:
  /// `host`: an address in digits.
  /// Errors: InputError where it is none, or not of this machine.
  explicit TrialDoor(const std::string& host);
  const std::string& at() const { return at_; } ///< HOST:PORT

private:
  Descriptor socket_;
  std::string at_;
};

} // namespace troupe

#pragma once

#include "actors/sockets/descriptor.hpp"

#include <string>
#include <thread>

namespace troupe {

/// A port that others may try to connect to as long as it lives. Who comes is
/// let in and sent away: however many try, one after the other, there is room.
class TrialDoor {
public:
  /// `host`: an address in digits.
  /// Errors: InputError where it is none, or not of this machine.
  explicit TrialDoor(const std::string& host);
  ~TrialDoor();
  TrialDoor(const TrialDoor&) = delete;
  TrialDoor& operator=(const TrialDoor&) = delete;
  const std::string& at() const { return at_; } ///< HOST:PORT

private:
  Descriptor socket_;
  std::string at_;
  std::thread porter_; ///< the last member: it uses the socket
};

} // namespace troupe

#pragma once

#include "actors/sockets/descriptor.hpp"
#include "strategies/membership.hpp"

#include <string>

namespace troupe {

/// A file in the machine's memory in which a shard that nobody supervises keeps
/// its states: whoever is started again by the same command finds them. It is
/// named after the coordinator's address and the role, belongs to this user
/// alone, and is locked, so that no other process writes to it.
class KeptMemory {
public:
  /// Where there is none to be had, or another process has it, `descriptor` is
  /// -1 and `why` says so.
  KeptMemory(const std::string& coordinator, RoleId role);

  int descriptor() const { return file_.get(); }
  const std::string& why() const { return why_; }
  /// Keeps what is of this job, and nothing of another.
  void belong_to(uint64_t job);
  /// The job is over.
  void remove();

private:
  std::string path_;
  std::string why_;
  Descriptor file_;
};

} // namespace troupe

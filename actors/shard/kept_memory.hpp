#pragma once

#include "actors/sockets/descriptor.hpp"
#include "strategies/role_id.hpp"

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

/// Removes what killed shards of this user have left in that folder: at this
/// coordinator's address what is of another job, elsewhere what nobody has held
/// for a day. (Who is killed with all the others finds it again.) A process's
/// own stays. For whoever begins, once it knows its job.
void sweep_kept_memory(const std::string& coordinator, uint64_t job);

} // namespace troupe

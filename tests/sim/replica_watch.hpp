#pragma once

#include "actors/messages.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe::sim {

/// What replicas have told the coordinator that they hold, and what follows.
class ReplicaWatch {
public:
  /// The coordinator hears from the process of a replica.
  void heard(uint32_t process, const Applied& applied);
  void heard(uint32_t process, const Sealed& sealed);
  /// An epoch begins. Tells whether all are gone that had what was committed.
  /// Errors: Violation of I2 or I4, when one of them has more than it goes on
  /// from.
  bool began(const Activate& activation);

  uint64_t committed() const { return committed_; }
  /// Whether a process has all that was committed.
  bool has_all(uint32_t process) const {
    const auto found = versions_.find(process);
    return found != versions_.end() && found->second >= committed_;
  }

private:
  std::map<uint32_t, uint64_t> versions_; ///< newest told of, by process
  std::vector<uint32_t> members_;
  uint64_t epoch_ = 0;
  uint64_t committed_ = 0; ///< all members have said that they have it
};

} // namespace troupe::sim

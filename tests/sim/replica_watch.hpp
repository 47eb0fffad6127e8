#pragma once

#include "actors/wire/messages.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace troupe::sim {

/// What replicas, or workers that all-reduce beside shards, have told the
/// coordinator that they hold, and what follows.
class ReplicaWatch {
public:
  /// The coordinator hears from the process of a replica; what a shard says
  /// once it has `left` that epoch does not count.
  void heard(uint32_t process, const Applied& applied, bool left);
  void heard(uint32_t process, const Sealed& sealed);
  /// An epoch begins. Tells whether all are gone that had what was committed.
  /// Errors: Violation of I2 or I4, when one of them has more than it goes on
  /// from; with dense layers reduced, more than the step that shards have not
  /// finished.
  bool began(const Activate& activation, bool dense_reduced);

  uint64_t committed() const { return committed_; }
  /// The coordinator says that a step of replicas is committed.
  /// Errors: Violation of I4 where one that is alive has not said that it has
  /// it; while an epoch ends, one that has sealed: others may be left out.
  void counted(uint64_t step, const std::function<bool(uint32_t)>& alive) const;

  /// Whether a process has all that was committed.
  bool has_all(uint32_t process) const {
    const auto found = versions_.find(process);
    return found != versions_.end() && found->second >= committed_;
  }

private:
  void begin(const Activate& activation);
  void count_survivors(const std::vector<uint32_t>& before);

  std::map<uint32_t, uint64_t> versions_; ///< newest told of, by process
  std::vector<uint32_t> members_;
  uint64_t epoch_ = 0;
  std::map<uint32_t, uint64_t> tails_; ///< of rows: the same, in this epoch
  uint64_t committed_ = 0; ///< all of them have said that they have it
  bool rolled_back_ = false;
  std::set<uint32_t> sealed_; ///< processes, for the epoch that comes
};

} // namespace troupe::sim

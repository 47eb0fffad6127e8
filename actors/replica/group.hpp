#pragma once

#include "actors/replica/memory.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/collective/reducer.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// A replica's part in the group of one epoch.
struct ReplicaGroup {
  std::shared_ptr<void> held; ///< what the reducer works in
  std::unique_ptr<Reducer> reducer;
  bool shares_memory = false;        ///< peers read vectors where they lie
  std::vector<std::string> carriers; ///< by rank: "memory", "shm", "tcp" …
  std::string error;                 ///< one line; empty: the group is there
  std::vector<uint32_t> missing{};   ///< ranks without a link in time
  bool hopeless = false;             ///< the next epoch would end alike
};

/// What a replica asks for to be in an epoch's group.
struct GroupWish {
  Fence fence;
  ReducerLayout layout;
  std::vector<Member> members; ///< replicas by rank
  std::shared_ptr<FlatArrays> arrays;
  /// A peer is gone: from any thread, not after the group's end.
  std::function<void(uint32_t rank, const std::string& reason)> on_down;
};

/// How replicas find one another: inside a process, or by links.
class GroupMaker {
public:
  virtual ~GroupMaker() = default;
  /// Completion: done() once, from any thread, at a deadline at the latest.
  virtual void
  form(GroupWish wish,
       std::function<void(std::shared_ptr<ReplicaGroup>)> done) = 0;
  /// Variables that all replicas of the process may work on; null: each has its
  /// own.
  virtual std::shared_ptr<VariableBanks> variables() { return nullptr; }
};

} // namespace troupe

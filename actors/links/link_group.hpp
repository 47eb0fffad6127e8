#pragma once

#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/io_loop.hpp"
#include "actors/sockets/socket.hpp"
#include "actors/wire/messages.hpp"
#include "monitoring/metrics.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A group that has been formed: keeps the watch for its members' end. Once its
/// destructor has returned, on_down is not called; over shared memory, the
/// others hear then that this member has left (over TCP when its sockets are
/// closed too). May be ended in on_down.
class LinkGroup {
public:
  virtual ~LinkGroup() = default;
};

/// What a member asks for to be linked to all others of an epoch's group.
struct GroupRequest {
  Fence fence;
  std::string group; ///< its name in the job, up to 128 characters
  uint32_t rank = 0;
  struct Member {
    std::string endpoint; ///< LinkNode::endpoint() of its process
    std::string name;     ///< for people: "worker:1"
  };
  std::vector<Member> members; ///< by rank, the own one too
  /// Own memory file (F_SEAL_SHRINK) that peers on this host are given; not
  /// taken: it is duplicated. -1: none.
  int segment = -1;
  uint64_t control_bytes = 0; ///< of rank 0's memory file for all; 0: none
  int control = -1;           ///< rank 0: that file; -1: a new one, all 0
  IoLoop::Clock::time_point deadline;
  /// Has what its links over TCP carry, by members' names; null: nothing has.
  std::shared_ptr<MetricRegistry> metrics{};
  /// A member is dead or has left: once per member, from the I/O thread, after
  /// done(); not for a socket that this side cut. Does not wait.
  std::function<void(uint32_t rank, const std::string& reason)> on_down;
};

/// The group with its sockets or memory, or which members are missing.
struct GroupOutcome {
  std::string error; ///< one line that names the member; empty: formed
  std::vector<uint32_t> missing; ///< ranks without a link at the deadline
  /// It follows from what the members were told: no other epoch helps.
  bool hopeless = false;
  /// Over TCP: by rank, own null. Over shared memory: empty.
  std::vector<std::unique_ptr<LinkSocket>> sockets;
  /// Over shared memory: the members' memory files by rank (own: duplicated);
  /// invalid where a member gave none. Over TCP: empty.
  std::vector<Descriptor> segments;
  /// Over shared memory: of control_bytes, its size sealed.
  Descriptor control;
  /// By rank: "shm", "tcp", "tcp+tls"; own empty.
  std::vector<std::string> carriers;
  /// Ranks by host, in the order of their first ranks.
  std::vector<std::vector<uint32_t>> hosts;
  /// To be kept as long as the group; null when there was an error.
  std::unique_ptr<LinkGroup> group;
};

} // namespace troupe

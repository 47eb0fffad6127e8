#pragma once

#include "actors/replica/group.hpp"
#include "tests/sim/byte_links.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sim {

/// Where replicas of simulated processes meet, as LinkGroups and LinkNode let
/// them: all link to all, for one epoch; who waits in vain, or hears that one
/// is gone, is told so.
class ReplicaLinks {
public:
  /// `streams`: they sum over streams; otherwise in memory that all map.
  explicit ReplicaLinks(bool streams) : streams_(streams) {}

  using Done = std::function<void(std::shared_ptr<ReplicaGroup>)>;
  void form(uint32_t process, std::shared_ptr<const Job> job, GroupWish wish,
            Done done);
  /// A process has ended.
  void ended(uint32_t process);

private:
  /// What the members of an epoch sum in.
  struct Memory;
  struct Forming {
    uint32_t process;
    std::shared_ptr<const Job> job;
    GroupWish wish;
    Done done;
    std::shared_ptr<Memory> memory;
    std::vector<uint32_t> processes; ///< of the members
    std::vector<int> ends;           ///< of links, by rank; -1: none
    uint32_t rank() const { return wish.layout.rank; }
  };
  using Place = std::shared_ptr<Forming>;

  void meet(const Place& a, const Place& b);
  void link(const Place& a, const Place& b);
  void finish(const Place& place);
  void fail(const Place& place, const std::string& why);
  void answer(const Place& place, std::shared_ptr<ReplicaGroup> group);
  std::shared_ptr<ReplicaGroup> group_of(Forming& forming);

  bool streams_;
  std::list<Place> places_; ///< not finished, or needed by one that is not
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Memory>> memories_;
};

/// One process' way to them.
class SimulatedGroups : public GroupMaker {
public:
  SimulatedGroups(ReplicaLinks& links, uint32_t process,
                  std::shared_ptr<const Job> job)
    : links_(links), process_(process), job_(std::move(job)) {}

  void form(GroupWish wish, ReplicaLinks::Done done) override {
    links_.form(process_, job_, std::move(wish), std::move(done));
  }

private:
  ReplicaLinks& links_;
  uint32_t process_;
  std::shared_ptr<const Job> job_;
};

} // namespace troupe::sim

#pragma once

#include "actors/job/job.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/consistency.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::sim {

/// How a simulated job was kept together from step to step, as its members are
/// told of it, and what follows from that.
class Periods {
public:
  explicit Periods(const Job& job);

  /// Members are told of a period; those that it takes the place of, for the
  /// job went back, are forgotten. `begins`: an epoch of it, at the latest.
  void told(const Fence& fence, const Consistency& period, bool begins);
  /// An epoch of it has begun.
  void began(const Consistency& period) { now_ = period; }
  const Consistency& now() const { return now_; }

  using Shares = std::map<uint64_t, std::vector<RankRange>>;
  /// Of counted gradients: a slice has had each step or lease of each period
  /// once. `made_of`: what steps are made of, k of n; null: of everything.
  /// Errors: Violation of I1, naming `where`.
  void check(const Job& job, const ShardStore& store, uint32_t slice,
             const Shares* made_of, const std::string& where) const;
  /// Whether the word of what the newest step is made of has been heard.
  bool knows(const ShardStore& store, uint32_t slice,
             const Shares& made_of) const;
  /// Whether a slice has had all that there is.
  bool is_complete(const Job& job, const ShardStore& store,
                   uint32_t slice) const {
    return is_complete(job, store.updates(slice), store.leases(slice).floor());
  }
  bool is_complete(const Job& job, const SliceHistory& history) const {
    return is_complete(job, history.updates, history.lease_floor);
  }
  bool is_complete(const Job& job, uint64_t updates, uint64_t leases) const;

  // --- the bound on staleness (I5) ------------------------------------------
  /// The coordinator begins an epoch; the tails of its slices.
  void sent(const Activate& activation);
  /// … gives leases to the process of a worker.
  /// Errors: Violation, when that holds more than the bound lets it.
  void sent(uint32_t process, const LeaseGrant& grant);
  /// … hears that a tail has applied one.
  void heard(const LeaseApplied& applied);

private:
  bool is_consumed(uint64_t lease) const;
  /// That of the update after so many.
  const Consistency& at(uint64_t updates) const;

  std::map<uint64_t, Consistency> periods_; ///< by number
  /// Term, epoch, and whether it has begun.
  std::tuple<uint64_t, uint64_t, bool> newest_{0, 0, false};
  Consistency now_;

  Fence sent_;
  int64_t bound_ = -1; ///< of that epoch
  std::vector<SliceChain> chains_;
  std::map<uint32_t, LeaseSet> had_;               ///< by slice, when it began
  std::map<uint32_t, std::set<uint64_t>> held_;    ///< leases, by process
  std::map<uint64_t, std::set<uint32_t>> applied_; ///< tails, by lease
};

} // namespace troupe::sim

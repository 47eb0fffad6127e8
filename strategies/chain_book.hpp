#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// Decides, epoch by epoch, who is a replica of a slice and in which order, and
/// who learns it (PROTOCOL 18, 19). Shards are named by their index.
///
///   wanted   the shards that shall keep a slice: the plan's, or what a move,
///            an added or a removed shard makes of them
///   chain    the shards that do, head first; every update is at all of them
///            before anybody is told of it
///
/// A wanted shard that is present and does not hold the slice learns it. Once
/// it holds it, the next epoch makes it a replica; and once all that are wanted
/// are, the others leave.
/// Source: van Renesse and Schneider, "Chain Replication for Supporting High
/// Throughput and Availability", OSDI 2004.
class ChainBook {
public:
  /// What a shard says of a slice that it holds whole.
  struct Held {
    uint32_t shard = 0;
    uint64_t epoch = 0;  ///< the newest in which it had all of the slice
    uint64_t newest = 0; ///< version, or number of updates
  };
  struct Chain {
    std::vector<uint32_t> replicas; ///< head first
    std::vector<uint32_t> learners;
    bool lost = false; ///< nobody holds it: the wanted begin again
  };

  /// `wanted` names the shards of each slice, the head first; none: no shard
  /// ever keeps it. `decides`: the replicas of slice 0 keep decisions as well,
  /// so whoever leaves it stays until another is proven to have them.
  explicit ChainBook(std::vector<std::vector<uint32_t>> wanted,
                     bool decides = false);

  size_t slices() const { return wanted_.size(); }
  const std::vector<uint32_t>& wanted(uint32_t slice) const;
  /// The chain of the newest epoch.
  const Chain& chain(uint32_t slice) const;
  /// Changes who shall keep the slice; takes effect epoch by epoch.
  /// Errors: an empty list is a bug and asserts.
  void want(uint32_t slice, std::vector<uint32_t> shards);

  /// Tells whether a replica that had all of the slice last in epoch `had` has
  /// had it as a replica: what it learnt before may lack what its chain told
  /// others meanwhile.
  bool proven(uint32_t slice, uint32_t shard, uint64_t had) const;

  /// An earlier coordinator's newest epoch had these chains and wishes.
  /// Errors: another number of slices is a bug and asserts.
  void resume(std::vector<std::vector<uint32_t>> replicas,
              std::vector<std::vector<uint32_t>> wanted, uint64_t epoch);

  /// Tells whether an epoch of these shards could serve every slice: a replica
  /// of each is there.
  bool viable(const std::set<uint32_t>& present) const;
  /// The first slice, if any, of which no replica is present.
  std::set<uint32_t> missing(const std::set<uint32_t>& present) const;

  /// Decides the chains of `epoch`, the next one. `held` has one list for each
  /// slice. The shards with the newest epoch of history are replicas, the ones
  /// with newer versions first: who lacks a version gets it from the one
  /// before. Epochs that are not told apart (0) make who leaves wait longer.
  void decide(const std::set<uint32_t>& present,
              const std::vector<std::vector<Held>>& held, uint64_t epoch = 0);

  /// Tells whether a wanted shard is not a replica yet, or a replica is not
  /// wanted any more.
  bool settled() const;
  /// Tells whether a replica stays only until the next epoch: all that are
  /// wanted are replicas beside it.
  bool leaving() const;
  /// The shards that learn a slice in the newest epoch.
  std::set<uint32_t> learners() const;

private:
  Chain decide(uint32_t slice, const std::set<uint32_t>& present,
               std::vector<Held> held) const;
  bool may_leave(uint32_t slice, const std::vector<Held>& held) const;

  bool decides_;
  std::vector<std::vector<uint32_t>> wanted_; ///< by slice
  std::vector<Chain> chains_;
  /// By slice: since which epoch each replica is one.
  std::vector<std::map<uint32_t, uint64_t>> since_;
  uint64_t epoch_ = 0; ///< of chains_; 0: not known
};

/// Spreads slices over `shards` anew with the fewest moves: shards with more
/// than their share of bytes give up their smallest slices to those with least.
/// `chains` names the wanted shards of each slice; each keeps its length where
/// there are enough shards, never twice the same one; of a slice that no shard
/// keeps none does. `costs`: what a byte costs a shard, in any unit; 1 for
/// those not named.
std::vector<std::vector<uint32_t>>
rebalance(const std::vector<std::vector<uint32_t>>& chains,
          const std::vector<uint64_t>& bytes, const std::set<uint32_t>& shards,
          uint32_t length, const std::map<uint32_t, double>& costs = {});

/// Puts the shards of each chain on different hosts where there are enough
/// (PROTOCOL 18): a shard on the host of one before it gives way to the one
/// with the fewest bytes on a host that the chain lacks. `hosts` names each
/// shard's; shards that it does not name stay and are nobody's choice.
std::vector<std::vector<uint32_t>>
spread_over_hosts(std::vector<std::vector<uint32_t>> chains,
                  const std::vector<uint64_t>& bytes,
                  const std::map<uint32_t, std::string>& hosts);

} // namespace troupe

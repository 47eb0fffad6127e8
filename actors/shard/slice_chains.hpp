#pragma once

#include "actors/job/chain_routes.hpp"
#include "actors/shard/shard_context.hpp"
#include "actors/shard/slice_image.hpp"
#include "strategies/chain_link.hpp"

#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace troupe {

/// The chains that a shard's slices are in, for one kind of slices: forwards
/// updates in order, answers followers with what they lack, and takes what this
/// shard lacks. Decisions are a ChainReplica's and a ChainFeed's per slice and
/// follower; what is done with an update is the owner's.
/// Source: van Renesse and Schneider, OSDI 2004 (strategies/chain_link.hpp).
class SliceChains {
public:
  struct Events {
    /// The next update of a slice that this shard follows: to the executor.
    std::function<void(const ChainUpdate&)> apply;
    /// A copy is on the way into the store: later updates follow it.
    std::function<void(uint32_t slice, const SliceImage&)> replaced;
    /// The store has all that the predecessor had, up to this version.
    std::function<void(uint32_t slice, uint64_t version)> current;
    /// A follower of the slice has told what it has.
    std::function<void(uint32_t slice, uint32_t follower)> joined;
  };
  /// A slice that is kept, or learned, in this epoch.
  struct Line {
    Line(const Job& job, const SliceChain& chain, uint32_t shard,
         ChainState state);
    struct Feed {
      ChainFeed machine;
      std::deque<ChainUpdate> waiting;
    };
    ChainPlace place;
    ChainReplica replica;
    std::map<uint32_t, Feed> feeds; ///< by follower
    std::vector<ChainJoin> early;   ///< came before this shard was current
    ImageAssembly assembly;
    std::vector<SliceImage> images;
    bool serves = false; ///< what the store has is its predecessor's
  };

  SliceChains(ShardContext& shard, Events events);

  /// Frees slices that are elsewhere now. The executor has nothing to do.
  void enter_epoch(const Activate& activation);
  /// Those of the epoch, by slice.
  const std::vector<SliceChain>& chains() const { return chains_; }
  const std::map<uint32_t, Line>& lines() const { return lines_; }
  /// Errors: null for a slice that is not here.
  const Line* find(uint32_t slice) const;

  bool forwards(uint32_t slice) const;
  /// The head orders an update: it gets its number and goes down the chain.
  void order(ChainUpdate update);
  /// Says down the chain that a lease has been pushed again.
  void repeat(ChainUpdate update);

  void take(const ChainJoin& join);
  void take(const SliceCopy& copy);
  void take(const ChainUpdate& update);

  template <class Message>
  void send(uint32_t shard, const Message& message) {
    shard_.self->send(shard_.peers.at<shard_actor>(shard), message);
  }

private:
  bool begins_again(const Activate& activation, const SliceChain& chain) const;
  void join_next();
  void answer(uint32_t slice, const ChainJoin& join);
  void copy_to(uint32_t slice, uint32_t follower);
  void release(Line::Feed& feed, uint32_t follower);
  void forward(Line& line, const ChainUpdate& update);
  bool fits(const ChainUpdate& update) const;
  void forward_again(Line& line, const ChainUpdate& update);
  void install(uint32_t slice, Line& line);
  void became_current(uint32_t slice, uint64_t version);
  /// Whoever pulls can be served again.
  void end_pause_if_served();
  void send_update(uint32_t follower, const ChainUpdate& update);

  ShardContext& shard_;
  Events events_;
  std::vector<SliceChain> chains_;
  std::map<uint32_t, Line> lines_;
  std::deque<uint32_t> to_join_; ///< slices whose predecessor is to be asked
  size_t asking_ = 0;
  size_t learning_ = 0; ///< slices that are not learned yet
};

} // namespace troupe

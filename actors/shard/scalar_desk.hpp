#pragma once

#include "actors/shard/scalar_decider.hpp"
#include "actors/shard/slice_chains.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe {

/// Where a step's scalars over all variables are decided (PROTOCOL 5): at the
/// head of slice 0's chain. What it decides goes down that chain first, and is
/// told once the tail has written it down: so whoever is head of slice 0 next
/// answers alike.
class ScalarDesk {
public:
  ScalarDesk(ShardContext& shard, SliceChains& chains);

  /// Whether steps, if there are any, have something decided: scalars, or k of
  /// n.
  static bool needed(const Job& job);

  void leave_epoch();
  /// Asks for the scalars of a round, with the block sums of a slice.
  void ask(uint64_t step, uint32_t round, uint32_t slice,
           const std::vector<double>& sums);
  /// `samples`: of the step.
  void take(const BlockSums& sums, const shard_actor& asker, uint32_t samples);
  void take(const ChainScalars& scalars);
  void take(const ScalarsHeld& held);
  /// A follower of slice 0 gets a copy: what is decided belongs to it.
  void joined(uint32_t follower);
  /// Whether this shard decides in this epoch.
  bool decides() const;
  /// Another decision, which is in the store: held() is called once the whole
  /// chain has it.
  void replicate(uint64_t step, uint32_t round,
                 const std::vector<float>& values, std::function<void()> held);

private:
  using Key = std::pair<uint64_t, uint32_t>; // step, round

  /// Whether a newer decision has come down the chain to the same place.
  bool is_late(const ChainScalars& scalars);
  void tell_if_held(const Key& key);
  void tell(const shard_actor& asker, const Key& key);
  /// Sends a decision to who follows this shard in slice 0's chain.
  void pass_on(const ChainScalars& scalars);

  ShardContext& shard_;
  SliceChains& chains_;
  std::optional<ScalarDecider> decider_; ///< where steps have scalars
  std::set<shard_actor> askers_;         ///< of this epoch
  std::set<Key> asked_; ///< down the chain, not held by all yet
  std::set<Key> held_;  ///< by the whole chain
  std::map<Key, uint64_t>
    newest_; ///< step that a follower got, by step mod 2 and round
  std::map<Key, std::function<void()>> waiting_;
};

} // namespace troupe

#pragma once

#include "actors/control/peer_directory.hpp"
#include "actors/role/context.hpp"
#include "actors/worker/sent_nodes.hpp"
#include "monitoring/metrics.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

/// The sum of a node's gradients, of a slice. Shapes: values [count of the
/// slice]; none: no leaf of the node has a sample.
struct SliceSum {
  uint32_t slice = 0;
  RankRange node;
  TensorView values;
};

/// The shards that keep what a stage, or a tensor member, computes with
/// (--sync-data parameter_server): it pulls its slices from the tails of their
/// chains, and pushes what its ranks' gradients sum up to to the heads, each
/// node once an epoch. A version that it pulls whole is one that all of them
/// have applied; those of the other slices are pulled by the members and stages
/// beside it. Touched by the stage's actor.
class StageShards {
public:
  /// `slices`: those that the stage pulls.
  StageShards(stage_actor::pointer self, const RoleContext& context,
              std::vector<uint32_t> slices);

  /// Links the stage to the shards that have its slices in an epoch, then calls
  /// done(), or failed(shard, line) (PeerDirectory).
  template <class Done, class Failed>
  void connect(const Activate& activation, Done done, Failed failed) {
    shards_.connect(self_, activation.fence, needed(activation),
                    RoleKind::shard, std::move(done), std::move(failed));
  }
  /// The shard that `source` was; nullopt: it was none, or is not needed.
  std::optional<RoleId> forget(const caf::actor_addr& source) {
    return shards_.forget(source);
  }
  /// The epoch is active: whom slices are pulled from, and pushed to, and what
  /// those have already.
  void begin_epoch(const Activate& activation);

  /// Asks for the slices of a version.
  void pull(const Fence& fence, uint64_t version);
  /// Whether the slice is awaited, of that version.
  bool awaits(const Pulled& message) const;
  /// Of a slice that is awaited. Errors: false, and it is awaited still, where
  /// the values are not of its size.
  bool take(const Pulled& message);
  /// Whether all that was pulled has come.
  bool has_all() const { return missing_.empty(); }

  /// Sends what the owners have not. In the order of slices, with all nodes of
  /// a slice at once, as workers do (link_terms()).
  void push(const Fence& fence, uint64_t step,
            const std::vector<SliceSum>& sums);

private:
  std::vector<Member> needed(const Activate& activation) const;

  stage_actor::pointer self_;
  const RoleContext& context_;
  std::vector<uint32_t> slices_;
  PeerDirectory shards_;
  std::vector<uint32_t> heads_; ///< by slice
  std::vector<uint32_t> tails_; ///< by slice
  SentNodes there_;
  std::set<uint32_t> missing_; ///< slices of the newest pull
  uint64_t version_ = 0;       ///< of that pull
  Counter& pushed_;
  Counter& pulled_;
};

} // namespace troupe

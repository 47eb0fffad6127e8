#pragma once

#include "actors/compute/leaf_tree.hpp"
#include "actors/role/context.hpp"
#include "actors/stage/peers.hpp"
#include "kernels/base/buffer.hpp"
#include "strategies/mesh.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// A gradient, flat, that a stage or a tensor member sums with its peers in
/// other pipelines or groups (MeshSum): it has the leaves of its own virtual
/// ranks, they have the rest. Calls of a step in the order that they stand in;
/// where there are no peers only gradient().
class PeerSum {
public:
  /// `context` outlives it. `chunk`: which of its role's gradients this is.
  PeerSum(const RoleContext& context, uint32_t chunk, uint64_t elements);

  /// A share of a node's sum.
  struct Given {
    uint32_t pipeline = 0; ///< whose share
    uint32_t chunk = 0;
    RankRange node;
    TensorView values;
  };
  /// What the peers are given of `own`, the leaves' sums.
  std::vector<Given> give(const MeshSum::Step& step, const LeafTree& own) const;
  /// Adds up this member's share, and returns it for the peers. What they sent
  /// of their nodes is read where it lies.
  TensorView add(const MeshSum::Step& step, const LeafTree& own,
                 const StagePeers& peers, const PeerValues& nodes);
  /// The whole gradient, with the peers' shares.
  void complete(const StagePeers& peers, const PeerValues& shares);

  /// The step's gradient. Shape: float [elements].
  const float* gradient(const LeafTree& own) const;

private:
  TensorView copy_of(const float* values, uint64_t count) const;
  ElementRange share(uint32_t pipeline) const;

  const RoleContext& context_;
  Mesh mesh_;
  uint32_t pipeline_; ///< of this member
  uint32_t chunk_;
  uint64_t elements_;
  Buffer whole_; ///< of all pipelines, where there are several
};

} // namespace troupe

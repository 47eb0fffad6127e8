#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/mesh.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// What has come from peers: by number (StagePeers).
using PeerValues = std::map<uint32_t, TensorView>;

/// What a stage, or a tensor member, exchanges in a step with its peers, those
/// of other pipelines or groups that hold the same (MeshSum): under which
/// numbers it travels as StageValues, and how long it is. A tensor member has
/// one chunk. Pure.
///
///   nodes   this stage's share of a node's sum, from the pipeline that has the
///           node: chunk V + the node's first rank
///   shares  a share of the gradient, added up, from the peer whose share it
///           is: chunk D + its pipeline
class StagePeers {
public:
  /// `elements` of each chunk's gradient.
  StagePeers(const Job& job, uint32_t member, std::vector<uint64_t> elements);

  /// Whether it has any.
  bool any() const { return mesh_.data > 1; }
  /// A step begins.
  void begin(uint64_t step);
  std::shared_ptr<const MeshSum::Step> step() const { return step_; }

  uint32_t number_of_node(uint32_t chunk, RankRange node) const;
  uint32_t number_of_share(uint32_t chunk, uint32_t pipeline) const;
  /// What has to come in the step before this stage can add up its share, and
  /// before it has the whole gradient.
  std::vector<uint32_t> awaited_nodes() const;
  std::vector<uint32_t> awaited_shares() const;
  /// Errors: nothing for a number that no peer of this stage may send.
  std::optional<uint64_t> elements(StageStream stream, uint32_t number) const;

private:
  const Job& job_;
  Mesh mesh_;
  uint32_t own_;                   ///< pipeline
  std::vector<uint64_t> elements_; ///< by chunk
  MeshSum sum_;
  std::shared_ptr<const MeshSum::Step> step_;
};

} // namespace troupe

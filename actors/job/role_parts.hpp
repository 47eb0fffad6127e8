#pragma once

#include "actors/job/job.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/tensor_part.hpp"
#include "strategies/role_id.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// What a stage or a tensor member computes: its chunks, each a part of the
/// job's graph or, of a tensor member, of its own share of that. A group of
/// tensor members without stages has all of it in one.
class RoleParts {
public:
  /// The job outlives it.
  RoleParts(const Job& job, RoleId role);

  struct Chunk {
    uint32_t number = 0; ///< in the model's order, of all stages
    GraphPart part;      ///< of graph()
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  /// The graph whose operators parts number. Its values and parameters are
  /// those of the job's.
  const Graph& graph() const { return member_ ? member_->graph : job_.graph; }
  /// Whether others have other slices of the same layers.
  bool is_sliced() const { return member_.has_value(); }
  /// The slices of a chunk's variables, of those that the role keeps.
  std::vector<uint32_t> kept(uint32_t chunk) const;
  /// What the engine of a chunk is made for.
  StageOptions options(uint32_t chunk) const;

private:
  const Job& job_;
  RoleId role_;
  std::optional<TensorPart> member_;
  std::vector<Chunk> chunks_;
};

} // namespace troupe

#pragma once

#include "actors/job/job_options.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// Gradients that a stage, or a tensor member, has of its part at once in a
/// step: the one that is made, those that wait to be added and, where pipelines
/// sum them, all of it.
uint64_t sums_of_step(const JobOptions& options);
/// Copies of what a stage, or a tensor member, pushes, which shards read.
uint64_t copies_for_shards(const JobOptions& options);

/// What stages take for parts of a model, wherever it is cut: as much as they
/// allocate. Used by one thread at a time; the graph outlives it.
class StageMemory {
public:
  struct Bytes {
    uint64_t variables = 0; ///< parameters and optimizer state, in all banks
    uint64_t gradients = 0;
    uint64_t step = 0; ///< activations of micro-batches, as many as are held
    uint64_t total() const { return variables + gradients + step; }
  };

  /// Micro-batches have up to `rows` samples.
  StageMemory(const JobOptions& options, const Graph& graph, uint32_t rows);
  ~StageMemory();

  /// Of part number `part` of the model, with operators `ops`; `step` is left
  /// out where the caller has no use for it: it takes a while.
  Bytes of(uint32_t part, OpRange ops, bool with_step = true);

private:
  /// A part's, whichever number it has.
  struct Known {
    GraphPart part;
    uint64_t kept = 0; ///< elements of the parameters that it keeps
    uint64_t flat = 0; ///< elements of those that it computes with
    /// All micro-batches are on their way back at once.
    bool at_once = false;
  };
  const Known& known(OpRange ops);

  const Graph& graph_;
  uint64_t banks_;        ///< values of a parameter that is kept: two banks of
                          ///< it and its slots; 0: shards keep them
  uint64_t sums_;         ///< gradients that a step has at once
  uint64_t sums_at_once_; ///< the same of a part whose passes stop for all
  uint64_t copies_;       ///< of the gradient of what it pulls, for shards
  std::vector<StageOptions> options_;       ///< by part
  std::unique_ptr<PartMemory> activations_; ///< null: nobody knows
  std::map<std::pair<uint32_t, uint32_t>, Known> parts_;
};

} // namespace troupe

#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

/// What the stages of a pipeline, or of several side by side, or tensor members
/// exchange in a step.
namespace troupe {

enum class StageStream : uint8_t {
  forward,    ///< values, to the next stage
  backward,   ///< gradients, to the stage before
  parameters, ///< that several stages use, to the next one; once a step
  sums,       ///< of this stage's slices and later ones', to the stage before
  scalars,    ///< that were made of all sums, to the next stage
  partials,   ///< sums over one tensor member's slices, to all others; or over
              ///< a pipeline's ranks, to a stage that holds the same layers
  nodes,      ///< of gradients, a share, to a stage that holds the same layers
  shares,     ///< of gradients, added up, to the same
  copies,     ///< of slices, to one that has lost what it kept
};
inline constexpr auto last_stage_stream = StageStream::copies;

/// A run of what crosses between two stages, of one virtual rank or node of the
/// tree; the runs of a crossing come in order. Identity: (step, virtual rank,
/// stream, begin).
/// Shapes: values, from element `begin` of the crossing on (StageReplica); sums
/// are doubles, as two elements each lie in memory.
struct StageValues {
  Fence fence;
  uint64_t step = 0;
  /// Of V ranks, for chunk c of the stage: c V + the rank (of parameters: 0);
  /// of sums and scalars: the round; of partials: (s T + m) V + the rank, of
  /// the micro-batch's sum s and member m of T, or s D + the sender's pipeline
  /// of D, of the step's sum s over all ranks (doubles); of nodes: c V + its
  /// first rank; of shares of D pipelines: c D + that of the sender; of copies:
  /// the slice.
  uint32_t virtual_rank = 0;
  StageStream stream = StageStream::forward;
  uint64_t begin = 0;
  TensorView values;
};

template <class Inspector>
bool inspect(Inspector& f, StageStream& x) {
  auto get = [&x] { return static_cast<uint8_t>(x); };
  auto set = [&x](uint8_t value) {
    x = static_cast<StageStream>(value);
    return value <= static_cast<uint8_t>(last_stage_stream);
  };
  return f.apply(get, set);
}
TROUPE_INSPECT(StageValues, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(virtual_rank), TROUPE_FIELD(stream),
               TROUPE_FIELD(begin), TROUPE_FIELD(values))

} // namespace troupe

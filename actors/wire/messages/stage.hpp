#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

/// What the stages of a pipeline exchange in a step.
namespace troupe {

enum class StageStream : uint8_t {
  forward,    ///< values, to the next stage
  backward,   ///< gradients, to the stage before
  parameters, ///< that several stages use, to the next one; once a step
};

/// A run of what crosses between two stages, of one virtual rank; the runs of a
/// crossing come in order. Identity: (step, virtual rank, stream, begin).
/// Shapes: values, from element `begin` of the crossing on (StageReplica).
struct StageValues {
  Fence fence;
  uint64_t step = 0;
  uint32_t virtual_rank = 0; ///< of parameters: 0
  StageStream stream = StageStream::forward;
  uint64_t begin = 0;
  TensorView values;
};

template <class Inspector>
bool inspect(Inspector& f, StageStream& x) {
  auto number = static_cast<uint8_t>(x);
  const bool ok = f.apply(number);
  x = static_cast<StageStream>(number);
  return ok && number <= static_cast<uint8_t>(StageStream::parameters);
}
TROUPE_INSPECT(StageValues, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(virtual_rank), TROUPE_FIELD(stream),
               TROUPE_FIELD(begin), TROUPE_FIELD(values))

} // namespace troupe

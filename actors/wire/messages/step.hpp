#pragma once

#include "actors/wire/bits.hpp"
#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

#include <vector>

/// What workers, or stages, and shards exchange in a step.
namespace troupe {

/// A worker asks a shard for all dense slices that it serves, of a version, or
/// for one of them, as a stage does.
struct Pull {
  static constexpr uint32_t every_slice = ~uint32_t{0};

  Fence fence;
  RoleId worker;
  uint64_t version = 0;
  uint32_t slice = every_slice;
};
/// One of them. Shapes: values [count of the slice], or rows (row_payload.hpp).
struct Pulled {
  Fence fence;
  uint64_t version = 0;
  uint32_t slice = 0;
  TensorView values;
};
/// The sum of a node's gradients. Identity: (step, node, slice). Shapes: values
/// [count of the slice], packed [PushPacking::size], or rows (row_payload.hpp);
/// none: no leaf of the node has a sample.
struct Push {
  Fence fence;
  uint64_t step = 0;
  RankRange node;
  uint32_t slice = 0;
  TensorView values;
};
/// A lease's gradient. Identity: (lease, slice). Shapes: as Push.
struct LeasePush {
  Fence fence;
  uint64_t lease = 0;
  uint32_t slice = 0;
  uint64_t pulled_version = 0;
  TensorView values;
  Bits<float> scale = 1; ///< of clipping
};
/// One slice's block sums in round `round` of a step (PROTOCOL 5), for the
/// decider: the owner of slice 0. Identity: (step, round, slice). Shape: sums
/// [sums_of()] (actors/job/slice_update.hpp).
struct BlockSums {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
  uint32_t slice = 0;
  std::vector<Bits<double>> sums;
};
/// What the decider has written down of a round. Shape: values [1], the scale
/// of clipping, or [variables], their trust ratios.
struct Scalars {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
  std::vector<Bits<float>> values;
};

TROUPE_INSPECT(Pull, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(version), TROUPE_FIELD(slice))
TROUPE_INSPECT(Pulled, TROUPE_FIELD(fence), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(values))
TROUPE_INSPECT(Push, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(node), TROUPE_FIELD(slice), TROUPE_FIELD(values))
TROUPE_INSPECT(LeasePush, TROUPE_FIELD(fence), TROUPE_FIELD(lease),
               TROUPE_FIELD(slice), TROUPE_FIELD(pulled_version),
               TROUPE_FIELD(values), TROUPE_FIELD(scale))
TROUPE_INSPECT(BlockSums, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round), TROUPE_FIELD(slice), TROUPE_FIELD(sums))
TROUPE_INSPECT(Scalars, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round), TROUPE_FIELD(values))

} // namespace troupe

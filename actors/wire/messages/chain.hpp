#pragma once

#include "actors/wire/bits.hpp"
#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

#include <vector>

/// What the replicas of a slice, and its learners, exchange (PROTOCOL 18).
namespace troupe {

/// A follower tells its predecessor, or a learner the tail, what it has: once
/// per epoch and slice.
struct ChainJoin {
  Fence fence;
  RoleId follower;
  uint32_t slice = 0;
  bool whole = false;   ///< it holds the slice
  uint64_t version = 0; ///< the newest that it holds
  uint64_t epoch = 0;   ///< as SliceState::epoch
};
/// The answer: a slice as it is, in parts; or, without parts, that nothing is
/// missing. All later updates follow it. Part 0: the values; then one for each
/// slot of optimizer state; the last: the applied leases, as bytes.
struct SliceCopy {
  Fence fence;
  uint32_t slice = 0;
  uint64_t version = 0;
  uint32_t part = 0;
  uint32_t parts = 0;
  bool more = false; ///< a copy of the next version follows
  TensorView values;
};
/// An update, on its way from the head to the tail and to learners. Identity:
/// (slice, number).
struct ChainUpdate {
  static constexpr uint64_t no_lease = ~uint64_t{0};

  Fence fence;
  uint32_t slice = 0;
  uint64_t number = 0; ///< the slice has had so many updates before
  uint64_t lease = no_lease;
  bool again = false; ///< the lease has been pushed again: no update
  Bits<float> gradient_scale = 1;
  Bits<float> trust_ratio = 1; ///< of the slice's variable
  Bits<float> rate_scale = 1;  ///< of a stale push
  uint32_t samples = 0;        ///< that the sum is of
  TensorView values;           ///< sum of gradients
};
/// What the decider has decided in a round of a step, on its way down the chain
/// of slice 0, before anybody else is told.
struct ChainScalars {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
  std::vector<Bits<float>> values;
};
/// That chain's tail tells its head that all replicas have written it down.
struct ScalarsHeld {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
};

TROUPE_INSPECT(ChainJoin, TROUPE_FIELD(fence), TROUPE_FIELD(follower),
               TROUPE_FIELD(slice), TROUPE_FIELD(whole), TROUPE_FIELD(version),
               TROUPE_FIELD(epoch))
TROUPE_INSPECT(SliceCopy, TROUPE_FIELD(fence), TROUPE_FIELD(slice),
               TROUPE_FIELD(version), TROUPE_FIELD(part), TROUPE_FIELD(parts),
               TROUPE_FIELD(more), TROUPE_FIELD(values))
TROUPE_INSPECT(ChainUpdate, TROUPE_FIELD(fence), TROUPE_FIELD(slice),
               TROUPE_FIELD(number), TROUPE_FIELD(lease), TROUPE_FIELD(again),
               TROUPE_FIELD(gradient_scale), TROUPE_FIELD(trust_ratio),
               TROUPE_FIELD(rate_scale), TROUPE_FIELD(samples),
               TROUPE_FIELD(values))
TROUPE_INSPECT(ChainScalars, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round), TROUPE_FIELD(values))
TROUPE_INSPECT(ScalarsHeld, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round))

} // namespace troupe

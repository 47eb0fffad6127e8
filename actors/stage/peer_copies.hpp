#pragma once

#include "actors/job/job.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/wire/messages.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

/// A slice of a version that is held, where it lies: its values, and its
/// optimizer state [state_slots(), slice.count]. Nobody writes there before all
/// that hold the same slices have the next version.
struct PeerCopy {
  TensorView values;
  TensorView state;
};
PeerCopy copy_of(const Job& job, const std::shared_ptr<ShardStore>& store,
                 uint32_t slice, uint64_t version);
/// Elements of it.
uint64_t copy_elements(const Job& job, uint32_t slice);
/// Takes a copy's values and state, one after the other.
void install_copy(const Job& job, ShardStore& store, uint32_t slice,
                  uint64_t version, const TensorView& copy);

/// Copies of slices as an epoch begins.
struct Copies {
  std::set<uint32_t> missing;                       ///< that one awaits
  std::vector<std::pair<uint32_t, uint32_t>> given; ///< learner, slice
};

/// Who gets copies as an epoch begins, where those that hold the same hold all
/// of it or nothing: tensor members of other groups.
struct CopyDuties {
  bool learns = false;         ///< a member needs all that it keeps
  std::set<uint32_t> learners; ///< those that it gives all that it keeps
};
/// The duties of member `own`. Pure.
CopyDuties copy_duties(const Activate& activation, uint32_t own);

} // namespace troupe

#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "kernels/files/safetensors.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A whole version of the parameters and the optimizer's state, slice by
/// slice.
struct Snapshot {
  uint64_t version = 0;
  std::vector<SnapshotSlice> slices; ///< by slice id
};

/// Puts the slices that owners send together into whole snapshots.
class SnapshotBook {
public:
  explicit SnapshotBook(const Job& job) : job_(job) {}

  /// Returns the snapshot that this slice completed. A slice that does not fit
  /// the plan, or came before, is dropped.
  std::optional<Snapshot> add(const SnapshotSlice& slice);
  void clear() { partial_.clear(); }

private:
  struct Partial {
    std::vector<SnapshotSlice> slices;
    std::vector<bool> present;
    size_t missing = 0;
  };

  const Job& job_;
  std::map<uint64_t, Partial> partial_;
};

/// The logical tensors of a snapshot, independent of slices and owners.
std::vector<NamedTensor> weights_of(const Job& job, const Snapshot& snapshot);
/// Weights, optimizer state ("adam_m/dense_0/weight") and the step, for
/// state_sha256 (PROTOCOL 22).
std::vector<NamedTensor> state_of(const Job& job, const Snapshot& snapshot);

} // namespace troupe

#pragma once

#include "actors/coordinator/saved_weights.hpp"
#include "actors/job/snapshot_book.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// What a run that ends at `step` is to leave behind.
struct OutputWish {
  bool digests = false;
  std::string save; ///< weights; empty: none
  uint64_t step = 0;
  /// Weights of a later step, and what cannot be read, are not written over:
  /// these go beside them.
  bool leaves_newer = false;
};

/// What it left.
struct RunOutputs {
  TableSizes tables; ///< sparse
  std::string weights_sha256;
  std::string state_sha256;
  std::optional<SavedWeights> weights; ///< none: none were asked for
};

/// Hashes and writes the last version of all slices, which takes as long as the
/// model is large: to be called on an executor.
RunOutputs make_outputs(const Job& job, const Snapshot& last,
                        const OutputWish& wish);

} // namespace troupe

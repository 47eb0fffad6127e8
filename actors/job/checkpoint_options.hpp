#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Where and how often a run's checkpoints are written.
struct CheckpointOptions {
  std::string dir;     ///< empty: none are
  uint64_t every = 0;  ///< steps; 0: at the end alone
  uint32_t keep = 3;   ///< the newest
  bool resume = false; ///< from the newest in `dir`
  /// Where each of them is damaged, from the beginning.
  bool fresh = false;
  /// Safetensors file of weights to begin with where `dir` has no checkpoint;
  /// empty: those of the seed.
  std::string initial = {};
};

} // namespace troupe

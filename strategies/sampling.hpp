#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Where the samples of a step come from: positions [first, first + count) of
/// the permutation of `data_epoch`.
struct StepSamples {
  uint64_t data_epoch = 0;
  uint64_t first = 0;
  uint32_t count = 0;
};

/// Maps steps and virtual ranks to samples; a pure function of the seed
/// (PROTOCOL 1).
/// Source: the permutation is a Fisher-Yates shuffle (Knuth, The Art of
/// Computer Programming 2, 3.4.2, algorithm P) by a counter-based generator.
class Sampling {
public:
  /// Errors: zero samples or a zero batch is a bug and asserts.
  Sampling(uint64_t seed, uint64_t samples, uint32_t global_batch,
           uint32_t virtual_ranks);

  uint64_t steps_per_epoch() const;

  /// Returns the positions that `step` (from 0) takes; the last step of an
  /// epoch may be shorter.
  StepSamples step(uint64_t step) const;

  /// Returns [floor(v n / V), floor((v + 1) n / V)) of a step of n samples.
  StepSamples rank(uint64_t step, uint32_t virtual_rank) const;

  /// Writes the sample indices of one virtual rank of one step, in order.
  /// The permutation of the data epoch is kept until another one is asked for.
  void indices(uint64_t step, uint32_t virtual_rank,
               std::vector<uint32_t>& out);

private:
  uint64_t seed_;
  uint64_t samples_;
  uint32_t global_batch_;
  uint32_t virtual_ranks_;
  uint64_t permuted_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> permutation_;
};

} // namespace troupe

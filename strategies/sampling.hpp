#pragma once

#include "strategies/rank_tree.hpp"
#include "strategies/wide_permutation.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// Where the samples of a step come from: positions [first, first + count) of
/// the permutation of `data_epoch`.
struct StepSamples {
  uint64_t data_epoch = 0;
  uint64_t first = 0;
  uint32_t count = 0;
};

/// How the samples of a data epoch are mixed: blocks of neighbours come in any
/// order, and so do the samples of each `window` blocks in a row.
struct SampleBlocks {
  uint32_t size = 0; ///< samples; 0: all samples are mixed
  uint32_t window = 1;
};

/// Maps steps and virtual ranks to samples; a pure function of the seed
/// (PROTOCOL 1).
/// Source: the permutation is a Fisher-Yates shuffle (Knuth, The Art of
/// Computer Programming 2, 3.4.2, algorithm P) by a counter-based generator; of
/// more than 2^32 - 1 samples, or blocks, a WidePermutation, which takes no
/// memory.
class Sampling {
public:
  /// A virtual rank gets at least `least` samples (1 or 2) of a step, or none,
  /// as long as the step has so many.
  /// Errors: zero samples, more than 2^63, or a zero batch is a bug and
  /// asserts.
  Sampling(uint64_t seed, uint64_t samples, uint32_t global_batch,
           uint32_t virtual_ranks, uint32_t least = 1,
           const SampleBlocks& blocks = {});

  const SampleBlocks& blocks() const { return blocks_; }
  uint64_t steps_per_epoch() const;

  /// Returns the positions that `step` (from 0) takes; the last step of an
  /// epoch may be shorter. One that would be left with fewer than `least` takes
  /// one from the step before, where that has one to spare.
  StepSamples step(uint64_t step) const;

  /// Returns [floor(v n / V), floor((v + 1) n / V)) of a step of n samples.
  /// Where that would be fewer than `least`, every so many virtual ranks have
  /// none, and the others share their samples out likewise.
  StepSamples rank(uint64_t step, uint32_t virtual_rank) const;

  /// How many virtual ranks have samples of a step.
  uint32_t filled(uint64_t step) const;

  /// The most samples that a virtual rank, or a step, ever has.
  uint32_t max_of_rank() const;
  uint32_t max_of_step() const;

  /// How many steps of an epoch have fewer samples than `least`.
  uint64_t short_steps() const;

  /// Writes the sample indices of one virtual rank of one step, in order.
  /// The permutation of the data epoch is kept until another one is asked for,
  /// of blocks the order of these and the samples of two windows.
  void indices(uint64_t step, uint32_t virtual_rank,
               std::vector<uint64_t>& out);

private:
  /// The samples of some blocks, mixed.
  struct Window {
    uint64_t number = ~uint64_t{0};
    uint64_t first = 0; ///< position
    std::vector<uint64_t> samples;
  };

  uint32_t shared_by(uint32_t samples) const;
  uint64_t units() const;
  uint64_t unit_at(uint64_t position) const;
  void begin_epoch(uint64_t epoch);
  uint64_t first_of_window(uint64_t number) const;
  const Window& window_at(uint64_t position);

  uint64_t seed_;
  uint64_t samples_;
  uint32_t global_batch_;
  uint32_t virtual_ranks_;
  uint32_t min_;
  SampleBlocks blocks_;
  uint64_t permuted_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> permutation_;   ///< of samples, or of blocks
  std::optional<WidePermutation> wide_; ///< where those are too many for that
  uint64_t last_block_ = 0; ///< where the last one is, which is short
  std::array<Window, 2> windows_;
};

} // namespace troupe

#pragma once

#include "kernels/base/buffer.hpp"
#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe {

/// Sums the leaves of a step along the fixed tree as they come, in any order: a
/// node as soon as all below it is there, so that few vectors are held at once.
class LeafTree {
public:
  /// Vectors of `count` elements, aligned to 64 bytes.
  explicit LeafTree(size_t count) : count_(count) {}

  /// A step begins. `samples` by virtual rank: one without has no leaf.
  void begin(const std::vector<uint32_t>& samples);
  /// The same where only the leaves of `own` come, and others have the rest:
  /// sums stop at the largest nodes that `own` covers.
  void begin(const std::vector<uint32_t>& samples, RankRange own);
  /// Where the leaf of `rank` is to be written; 0 at first, then what another
  /// leaf left there. put() takes it. Shape: float [count].
  float* next(uint32_t rank);
  /// The leaf of `rank` is written. Errors: a rank whose leaf is not missing,
  /// or no next() before, is a bug and asserts.
  void put(uint32_t rank);
  /// The sum, once all leaves are in; before that, a bug that asserts.
  /// Shape: float [count].
  const float* root() const;
  /// The sum of a node, once all its leaves are in and unless it has gone into
  /// that of a larger one. Errors: as above; so is a node without samples.
  /// Shape: float [count].
  const float* sum(RankRange node) const;

private:
  bool is_whole(RankRange node) const;
  void merge(RankRange node);

  size_t count_;
  std::map<RankRange, std::unique_ptr<Buffer>> sums_;
  std::vector<std::unique_ptr<Buffer>> idle_;
  std::map<uint32_t, std::unique_ptr<Buffer>> written_; ///< by rank
  std::vector<uint8_t> missing_;                        ///< by rank
  RankRange own_;
};

} // namespace troupe

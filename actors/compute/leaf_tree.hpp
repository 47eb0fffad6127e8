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
  /// Where the leaf that comes next is to be written; 0 at first, then what
  /// another leaf left there. put() takes it. Shape: float [count].
  float* next();
  /// The leaf of `rank` is written. Errors: a rank whose leaf is not missing,
  /// or no next() before, is a bug and asserts.
  void put(uint32_t rank);
  /// The sum, once all leaves are in; before that, a bug that asserts.
  /// Shape: float [count].
  const float* root() const;

private:
  bool is_whole(RankRange node) const;
  void merge(RankRange node);

  size_t count_;
  std::map<RankRange, std::unique_ptr<Buffer>> sums_;
  std::vector<std::unique_ptr<Buffer>> idle_;
  std::unique_ptr<Buffer> next_;
  std::vector<uint8_t> missing_; ///< by rank
};

} // namespace troupe

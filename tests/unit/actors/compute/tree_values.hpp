#pragma once

#include "strategies/rank_tree.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace troupe {

inline constexpr size_t tree_elements = 5;

/// Values whose sum depends on the order of its additions.
inline float leaf_value(uint32_t rank, size_t element) {
  std::mt19937 random(rank * 31 + static_cast<uint32_t>(element));
  return std::uniform_real_distribution<float>(-1, 1)(random)
         * std::pow(10.0f, static_cast<float>(random() % 8));
}

/// By the rule, from the top: nothing where no rank has samples.
inline std::vector<float> tree_sum(RankRange node,
                                   const std::vector<uint32_t>& samples) {
  if (node.size() == 1) {
    std::vector<float> leaf;
    for (size_t i = 0; samples[node.lo] > 0 && i < tree_elements; ++i)
      leaf.push_back(leaf_value(node.lo, i));
    return leaf;
  }
  const auto [left, right] = children(node);
  auto sum = tree_sum(left, samples);
  const auto other = tree_sum(right, samples);
  if (sum.empty())
    return other;
  for (size_t i = 0; i < other.size(); ++i)
    sum[i] += other[i];
  return sum;
}

} // namespace troupe

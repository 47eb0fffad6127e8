#include "actors/tree_sum.hpp"

#include "kernels/loops.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

namespace troupe {
namespace {

constexpr uint64_t block = 4096; // 16 KiB: two of them stay in the L1 cache

class Summer {
public:
  Summer(const std::map<RankRange, TensorView>& given, uint64_t at,
         uint64_t count)
    : given_(given), at_(at), count_(count) {}

  /// Returns where the sum of `node` lies: a contribution itself, or
  /// `scratch`; null for the identity.
  const float* sum(RankRange node, float* scratch) {
    if (auto found = given_.find(node); found != given_.end())
      return found->second.size() == 0 ? nullptr : found->second.data() + at_;
    assert(node.size() > 1);
    auto [left, right] = children(node);
    std::vector<float> other(count_);
    const auto* a = sum(left, scratch);
    const auto* b = sum(right, other.data());
    if (a == nullptr || b == nullptr) {
      if (b == other.data()) {
        std::memcpy(scratch, b, count_ * sizeof(float));
        return scratch;
      }
      return a == nullptr ? b : a;
    }
    add(a, b, scratch, count_);
    return scratch;
  }

private:
  const std::map<RankRange, TensorView>& given_;
  uint64_t at_;
  uint64_t count_;
};

} // namespace

void tree_sum(const std::map<RankRange, TensorView>& contributions,
              uint32_t virtual_ranks, uint64_t begin, uint64_t end,
              float* out) {
  for (auto at = begin; at < end; at += block) {
    const auto count = std::min(block, end - at);
    const auto* sum = Summer{contributions, at, count}.sum({0, virtual_ranks},
                                                           out + at);
    if (sum == nullptr)
      std::memset(out + at, 0, count * sizeof(float));
    else if (sum != out + at)
      std::memcpy(out + at, sum, count * sizeof(float));
  }
}

} // namespace troupe

#include "strategies/wide_permutation.hpp"

#include "strategies/random_words.hpp"
#include "strategies/require.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

/// The smallest number whose square is at least `x`, which is at most 2^63.
uint64_t root_of(uint64_t x) {
  // The square root is a guess: it may round either way.
  auto root = std::max(
    uint64_t{1}, static_cast<uint64_t>(std::sqrt(static_cast<double>(x))));
  while (root * root < x)
    ++root;
  while (root > 1 && (root - 1) * (root - 1) >= x)
    --root;
  return root;
}

/// Takes steps among a few numbers more than `size` until one is below that.
template <class Step>
uint64_t walked(uint64_t x, uint64_t size, const Step& step) {
  strategies::require(x < size, "a permutation has no such number");
  do
    x = step(x);
  while (x >= size);
  return x;
}

} // namespace

WidePermutation::WidePermutation(uint64_t key, uint64_t size) : size_(size) {
  strategies::require(size > 0 && size <= uint64_t{1} << 63,
                      "a permutation needs a number, and at most 2^63");
  const auto side = root_of(size);
  sides_ = {side, (size + side - 1) / side};
  for (size_t i = 0; i < rounds; ++i)
    keys_[i] = strategies::mix(key + (i + 1) * strategies::golden);
}

/// Each half in turn is moved by what the other one and the key draw.
uint64_t WidePermutation::forth(uint64_t x) const {
  std::array<uint64_t, 2> half{x % sides_[0], x / sides_[0]};
  for (size_t i = 0; i < rounds; ++i) {
    const auto side = sides_[i % 2];
    auto& moved = half[i % 2];
    moved += strategies::below(side,
                               strategies::mix(keys_[i] ^ half[1 - i % 2]));
    moved -= moved >= side ? side : 0;
  }
  return half[1] * sides_[0] + half[0];
}

uint64_t WidePermutation::back(uint64_t x) const {
  std::array<uint64_t, 2> half{x % sides_[0], x / sides_[0]};
  for (auto i = rounds; i-- > 0;) {
    const auto side = sides_[i % 2];
    auto& moved = half[i % 2];
    const auto drawn =
      strategies::below(side, strategies::mix(keys_[i] ^ half[1 - i % 2]));
    moved += moved >= drawn ? 0 : side;
    moved -= drawn;
  }
  return half[1] * sides_[0] + half[0];
}

uint64_t WidePermutation::at(uint64_t position) const {
  return walked(position, size_, [this](uint64_t x) { return forth(x); });
}

uint64_t WidePermutation::position_of(uint64_t number) const {
  return walked(number, size_, [this](uint64_t x) { return back(x); });
}

} // namespace troupe

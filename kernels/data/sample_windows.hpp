#pragma once

#include "kernels/data/dataset.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

/// What the samples of a window (MixRule) take at most, where bytes_of(first,
/// last) is what those from one to another take; 0 where all are mixed.
template <class BytesOf>
uint64_t largest_window(const Dataset& train, const MixRule& mix,
                        const BytesOf& bytes_of) {
  if (mix.block == 0)
    return 0;
  const auto samples = train.samples();
  std::vector<uint64_t> blocks;
  for (uint64_t first = 0; first < samples; first += mix.block) {
    const auto last = std::min<uint64_t>(first + mix.block, samples) - 1;
    blocks.push_back(bytes_of(train.place(first), train.place(last)));
  }
  const auto window = std::min<size_t>(mix.window, blocks.size());
  std::partial_sort(blocks.begin(),
                    blocks.begin() + static_cast<ptrdiff_t>(window),
                    blocks.end(), std::greater{});
  uint64_t bytes = 0;
  for (size_t i = 0; i < window; ++i)
    bytes += blocks[i];
  return bytes;
}

} // namespace troupe

#pragma once

#include "actors/compute/recent_lists.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace troupe {

/// Which lists of rows the shards know that a worker pulls from, by slice; they
/// forget with the epoch. Touched by the worker's actor.
class ToldLists {
public:
  /// An epoch begins: whom each slice is pushed to, and read from.
  void begin_epoch(const std::vector<uint32_t>& heads,
                   const std::vector<uint32_t>& tails) {
    lists_.assign(tails.size(), {});
    one_shard_.resize(tails.size());
    for (size_t i = 0; i < tails.size(); ++i)
      one_shard_[i] = heads[i] == tails[i];
  }
  /// A pull of that list is sent: whether its name alone will do.
  bool pulls(uint32_t slice, ListName name) {
    if (lists_[slice].use(name) != nullptr)
      return true;
    lists_[slice].put(name, {});
    return false;
  }
  /// Whether who takes the slice's pushes knows a list.
  bool knows(uint32_t slice, ListName name) const {
    return slice < lists_.size() && one_shard_[slice]
           && lists_[slice].find(name) != nullptr;
  }

private:
  std::vector<RecentLists<std::monostate>> lists_; ///< by slice
  std::vector<bool> one_shard_; ///< head and tail of the slice's chain
};

} // namespace troupe

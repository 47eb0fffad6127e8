#pragma once

#include "kernels/table/row_payload.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe {

/// The newest lists of rows of one part of a table that one worker has named to
/// one shard in this epoch, kept by both sides by the same rule: messages
/// between them arrive in order, so the worker knows which names the shard
/// still knows. Two: that of the step, or lease, in hand and the next one's.
template <class Value>
class RecentLists {
public:
  /// What a name stands for, which becomes the newest; null: it is not known.
  Value* use(ListName name) {
    const auto at = place(name);
    if (at == lists_.end())
      return nullptr;
    std::rotate(lists_.begin(), at, at + 1);
    return &lists_.front().second;
  }
  /// The same, without a word about which is the newest.
  const Value* find(ListName name) const {
    for (const auto& [known, value] : lists_)
      if (known == name)
        return &value;
    return nullptr;
  }
  /// The oldest is forgotten.
  void put(ListName name, Value value) {
    if (auto* known = use(name)) {
      *known = std::move(value);
      return;
    }
    if (lists_.size() == kept)
      lists_.pop_back();
    lists_.emplace(lists_.begin(), name, std::move(value));
  }

private:
  static constexpr size_t kept = 2;
  auto place(ListName name) {
    return std::find_if(lists_.begin(), lists_.end(),
                        [&](const auto& x) { return x.first == name; });
  }
  std::vector<std::pair<ListName, Value>> lists_; ///< newest first
};

} // namespace troupe

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// Numbers of samples, each larger than the one before: 4 bytes each, however
/// large they are.
class AscendingPlaces {
public:
  bool empty() const { return low_.empty(); }
  size_t size() const { return low_.size(); }
  void reserve(size_t count) { low_.reserve(count); }

  void push_back(uint64_t place) {
    for (; turns_.size() < place >> 32;)
      turns_.push_back(low_.size());
    low_.push_back(static_cast<uint32_t>(place));
  }

  uint64_t operator[](size_t i) const {
    if (turns_.empty()) [[likely]]
      return low_[i];
    const auto after = std::upper_bound(turns_.begin(), turns_.end(), i);
    return static_cast<uint64_t>(after - turns_.begin()) << 32 | low_[i];
  }

private:
  std::vector<uint32_t> low_;   ///< the lower half of each
  std::vector<uint64_t> turns_; ///< how many are below 2^32, 2 * 2^32, …
};

} // namespace troupe

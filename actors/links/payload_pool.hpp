#pragma once

#include "kernels/base/buffer.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace troupe {

/// Memory for what arrives, used again: fresh pages cost more than the copy
/// into them. All calls are thread-safe.
class PayloadPool {
public:
  /// Keeps at most `max_idle_bytes` that nobody uses.
  explicit PayloadPool(uint64_t max_idle_bytes)
    : max_idle_bytes_(max_idle_bytes) {}

  /// Gives memory for at least `count` values, not initialised.
  Buffer take(size_t count);
  void give(Buffer&& block);
  uint64_t idle_bytes() const;

private:
  const uint64_t max_idle_bytes_;
  mutable std::mutex mutex_;
  uint64_t idle_bytes_ = 0;
  std::map<size_t, std::vector<Buffer>> idle_; ///< by elements
};

} // namespace troupe

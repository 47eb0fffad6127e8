#include "actors/links/payload_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe {
namespace {

/// Sizes are powers of two, so that a few of them serve all slices; what a
/// payload leaves of its block is never touched and takes no memory.
constexpr size_t smallest = 1024;

} // namespace

Buffer PayloadPool::take(size_t count) {
  const auto size = std::bit_ceil(std::max(count, smallest));
  {
    std::lock_guard lock{mutex_};
    auto& blocks = idle_[size];
    if (!blocks.empty()) {
      auto block = std::move(blocks.back());
      blocks.pop_back();
      idle_bytes_ -= size * sizeof(float);
      return block;
    }
  }
  return Buffer{size};
}

void PayloadPool::give(Buffer&& block) {
  const auto bytes = block.size() * sizeof(float);
  std::lock_guard lock{mutex_};
  if (idle_bytes_ + bytes > max_idle_bytes_)
    return; // freed by the caller
  idle_bytes_ += bytes;
  idle_[block.size()].push_back(std::move(block));
}

uint64_t PayloadPool::idle_bytes() const {
  std::lock_guard lock{mutex_};
  return idle_bytes_;
}

} // namespace troupe

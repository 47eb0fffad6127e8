#include "strategies/shard_loads.hpp"

#include <algorithm>
#include <vector>

namespace troupe {
namespace {

constexpr uint64_t min_measured_ms = 2'000;
constexpr double min_busy_seconds = 0.1;
constexpr double chance = 1.25;
constexpr double most = 4;

} // namespace

void ShardLoads::keeps(uint32_t shard, uint64_t bytes) {
  if (auto known = shards_.find(shard);
      known != shards_.end() && known->second.bytes == bytes)
    return;
  shards_[shard] = Shard{bytes};
}

void ShardLoads::busy(uint32_t shard, double seconds, uint64_t now_ms) {
  auto known = shards_.find(shard);
  if (known == shards_.end())
    return;
  auto& x = known->second;
  if (!x.seen || seconds < x.last_seconds) { // or another process of it
    x.seen = true;
    x.first_seconds = seconds;
    x.first_ms = now_ms;
  }
  x.last_seconds = seconds;
  x.last_ms = now_ms;
}

std::map<uint32_t, double> ShardLoads::costs() const {
  std::map<uint32_t, double> measured;
  std::vector<double> sorted;
  for (const auto& [shard, x] : shards_) {
    const auto ms = x.last_ms - x.first_ms;
    const auto seconds = x.last_seconds - x.first_seconds;
    if (x.bytes == 0 || ms < min_measured_ms || seconds < min_busy_seconds)
      continue;
    const auto cost = seconds / static_cast<double>(ms)
                      / static_cast<double>(x.bytes);
    measured[shard] = cost;
    sorted.push_back(cost);
  }
  std::map<uint32_t, double> out;
  if (sorted.size() < 2)
    return out;
  std::ranges::sort(sorted);
  const auto median = sorted[(sorted.size() - 1) / 2]; // the faster of two
  for (const auto& [shard, cost] : measured) {
    const auto relative = std::clamp(cost / median, 1 / most, most);
    if (relative > chance || relative < 1 / chance)
      out[shard] = relative;
  }
  return out;
}

} // namespace troupe

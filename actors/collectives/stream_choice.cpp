#include "actors/collectives/stream_choice.hpp"

#include "kernels/collective/sum_program.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {

namespace {

/// An order-dependent mix of numbers (splitmix64's finaliser).
class Digest {
public:
  void add(uint64_t number) {
    value_ = (value_ ^ number) + 0x9e3779b97f4a7c15;
    value_ = (value_ ^ (value_ >> 30)) * 0xbf58476d1ce4e5b9;
    value_ = (value_ ^ (value_ >> 27)) * 0x94d049bb133111eb;
    value_ ^= value_ >> 31;
  }
  uint64_t value() const { return value_; }

private:
  uint64_t value_ = 0;
};

std::vector<std::vector<uint32_t>> hosts_of(const StreamOptions& options,
                                            uint32_t members) {
  if (!options.hosts.empty())
    return options.hosts;
  std::vector<std::vector<uint32_t>> one(1, std::vector<uint32_t>(members));
  std::iota(one[0].begin(), one[0].end(), 0);
  return one;
}

} // namespace

bool sums_directly(const StreamOptions& options, uint32_t members,
                   uint64_t bytes) {
  if (options.compression.kind != CompressionKind::none)
    return true;
  if (options.algorithm == StreamAlgorithm::reproducible
      || options.algorithm == StreamAlgorithm::direct)
    return true;
  if (options.algorithm != StreamAlgorithm::automatic)
    return false;
  // It sends as many bytes as a ring, in two steps instead of 2 (members - 1);
  // but many members would send to one at once.
  constexpr uint32_t max_direct = 8;
  return members <= max_direct
         && choose_all_reduce(bytes, hosts_of(options, members)).algorithm
              != AllReduce::hierarchical;
}

bool sums_everywhere(uint32_t members, uint64_t bytes) {
  // Between two as many bytes as in two steps, among more members / 2 times as
  // many. 1 KiB between two: 9 us instead of 16; 256 KiB: 178 instead of 188.
  // 16 KiB among four on two cores: 89 us instead of 282.
  constexpr uint64_t most = 256 << 10;
  return bytes * (members > 2 ? members : 1) <= most;
}

bool on_one_host(const StreamOptions& options) {
  return options.hosts.size() <= 1;
}

size_t
stream_chunk_bytes(uint32_t members,
                   const std::vector<std::pair<uint64_t, uint64_t>>& buckets) {
  // Long frames win, though what shorter ones bring could be summed earlier:
  // sending and receiving get in each other's way at every turn. But what is
  // under way must fit into a core's cache. EPYC with 1 MiB of second cache on
  // two cores: between two 1 MiB 190 us with 256 or 384 KiB, 169 with 512; 64
  // MiB 13.1 ms with 384, 13.2 to 19 with 448, up to 27 with 512. Among four 16
  // MiB 12, 11, 10.2 and 13.5 ms with 128, 256, 384 and 512.
  constexpr uint64_t whole = 512 << 10;
  uint64_t longest = 0;
  for (auto [begin, end] : buckets)
    longest = std::max(longest, (end - begin) * sizeof(float) / members);
  return longest > whole ? 384 << 10 : whole;
}

uint64_t bytes_of(const std::vector<std::pair<uint64_t, uint64_t>>& buckets) {
  uint64_t elements = 0;
  for (auto [begin, end] : buckets)
    elements += end - begin;
  return elements * sizeof(float);
}

Schedule stream_schedule(const StreamOptions& options,
                         const CollectivePlace& at) {
  const auto hosts = hosts_of(options, at.size);
  auto algorithm = options.algorithm;
  if (algorithm == StreamAlgorithm::automatic)
    switch (choose_all_reduce(at.count * sizeof(float), hosts).algorithm) {
      case AllReduce::hierarchical:
        algorithm = StreamAlgorithm::hierarchical;
        break;
      case AllReduce::halving_doubling:
        algorithm = StreamAlgorithm::halving_doubling;
        break;
      default:
        algorithm = StreamAlgorithm::ring;
    }
  if (algorithm == StreamAlgorithm::hierarchical)
    return hierarchical_all_reduce(at, hosts);
  if (algorithm == StreamAlgorithm::halving_doubling)
    return halving_doubling_all_reduce(at);
  return ring_all_reduce(at);
}

uint64_t
stream_digest(const StreamOptions& options, const ReducerLayout& layout,
              const std::vector<std::pair<uint64_t, uint64_t>>& buckets,
              const ReduceStep& step) {
  Digest digest;
  digest.add(layout.hash);
  digest.add(layout.members);
  for (auto [begin, end] : buckets) {
    digest.add(begin);
    digest.add(end);
  }
  digest.add(hash_of(step.program));
  digest.add(static_cast<uint64_t>(options.algorithm));
  digest.add(static_cast<uint64_t>(options.compression.kind));
  digest.add(static_cast<uint64_t>(options.compression.fraction * 1e9));
  digest.add(options.chunk_bytes);
  digest.add(options.confirm);
  digest.add(options.share_update && step.update ? step.results.size() : 0);
  for (const auto& host : options.hosts) {
    digest.add(host.size());
    for (auto rank : host)
      digest.add(rank);
  }
  return digest.value();
}

uint64_t call_digest(uint64_t what, uint64_t count) {
  Digest digest;
  digest.add(what);
  digest.add(count);
  return digest.value();
}

} // namespace troupe

#include "kernels/collective/chunks.hpp"

#include <algorithm>
#include <atomic>

namespace troupe {

namespace {

/// Elements of a chunk: long enough that claiming it costs nothing, short
/// enough that what remains is shared out. Whole cache lines.
constexpr uint64_t shortest_chunk = 2'048;
constexpr uint64_t longest_chunk = 16'384;
constexpr uint64_t chunks_a_run = 4;
/// The index of a chunk in its run has 16 bits.
constexpr uint64_t max_chunks_a_run = 60'000;
} // namespace

Chunks::Chunks(Range range, uint32_t members) : range(range), members(members) {
  const auto [begin, end] = range;
  const auto count = end - begin;
  auto wanted = std::clamp(count / (members * chunks_a_run), shortest_chunk,
                           longest_chunk);
  wanted = std::max(wanted, count / (members * max_chunks_a_run));
  length = (wanted + Chunks::line - 1) / Chunks::line * Chunks::line;
  first = begin / length;
  number = count == 0 ? 0 : (end + length - 1) / length - first;
}

Chunks::Range Chunks::operator[](uint64_t chunk) const {
  const auto at = (first + chunk) * length;
  return {std::max(range.first, at), std::min(range.second, at + length)};
}

Chunks::Range Chunks::run(uint32_t member) const {
  return {number * member / members, number * (member + 1) / members};
}

// A counter that stands at an older range is as good as one at 0: who comes to
// a range has found all chunks of the one before it taken.
bool claim_chunk(uint64_t& claimed, uint64_t ordinal, uint64_t number,
                 uint64_t& chunk) {
  std::atomic_ref word(claimed);
  auto seen = word.load(std::memory_order_relaxed);
  while (true) {
    const auto at = seen >> 16;
    const auto next = at == ordinal ? seen & 0xffff : 0;
    if (at > ordinal || next >= number)
      return false;
    if (word.compare_exchange_weak(seen, (ordinal << 16) + next + 1,
                                   std::memory_order_acq_rel)) {
      chunk = next;
      return true;
    }
  }
}

} // namespace troupe

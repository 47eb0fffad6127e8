#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

/// Ids of a page: 64 that follow one another. What is clustered costs little
/// on the way and in the index, what is scattered one page an id.
constexpr uint32_t page_ids = 64;

/// Which ids of one page there are.
struct IdPage {
  uint64_t page = 0; ///< id / 64
  uint64_t bits = 0; ///< bit i: id 64 page + i is there

  uint32_t count() const { return static_cast<uint32_t>(std::popcount(bits)); }
  bool operator==(const IdPage&) const = default;
};

/// The ids below `bit` that a page has.
constexpr uint32_t rank_in(uint64_t bits, uint32_t bit) {
  return static_cast<uint32_t>(
    std::popcount(bits & ((uint64_t{1} << bit) - 1)));
}

/// A set of 64-bit ids: pages ascending, none without an id.
using IdPages = std::vector<IdPage>;

/// The set of `ids`, which ascend; one that repeats counts once.
/// Errors: ids that do not ascend are a bug and assert.
IdPages pages_of(std::span<const uint64_t> ids);

/// How many ids a set has.
uint64_t count_ids(std::span<const IdPage> pages);

/// Calls visit(id) for each id, ascending.
template <class Visit>
void for_each_id(std::span<const IdPage> pages, Visit visit) {
  for (const auto& [page, bits] : pages)
    for (auto left = bits; left != 0; left &= left - 1)
      visit(page * page_ids + static_cast<uint32_t>(std::countr_zero(left)));
}

/// Ids that either has.
IdPages united(std::span<const IdPage> a, std::span<const IdPage> b);
/// Ids of `a` that `b` does not have.
IdPages without(std::span<const IdPage> a, std::span<const IdPage> b);

/// The part of a table, of `partitions`, that a page belongs to: a fixed hash
/// of the page's number, so that ids that lie together stay together and a
/// hot range is spread.
uint32_t partition_of(uint64_t page, uint32_t partitions);

/// Writes a set as bytes: what is missing between pages, then positions, a
/// bitmap, or how many pages in a row are full.
std::vector<std::byte> encode_pages(std::span<const IdPage> pages);

/// Reads what encode_pages wrote.
/// Errors: nullopt for anything else, and for more than `max_ids` ids.
std::optional<IdPages> decode_pages(std::span<const std::byte> bytes,
                                    uint64_t max_ids);

} // namespace troupe

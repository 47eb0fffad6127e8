#include "kernels/table/page_index.hpp"

#include "kernels/random.hpp"

namespace troupe::kernels {

PageIndex::PageIndex() {
  segments_.push_back(std::make_unique<Segment>());
  directory_.push_back(segments_.back().get());
}

size_t PageIndex::place(const Segment& segment, uint64_t hash, uint64_t page) {
  auto at = home(hash);
  while (segment.slots[at].block != 0 && segment.slots[at].page != page)
    at = (at + 1) % slots;
  return at;
}

uint64_t PageIndex::find(uint64_t page) const {
  const auto hash = mix(page);
  const auto& where = segment(hash);
  return where.slots[place(where, hash, page)].block;
}

void PageIndex::prefetch(uint64_t page) const {
  const auto hash = mix(page);
  __builtin_prefetch(&segment(hash).slots[home(hash)]);
}

void PageIndex::put(uint64_t page, uint64_t block) {
  const auto hash = mix(page);
  auto* where = &segment(hash);
  auto at = place(*where, hash, page);
  if (where->slots[at].block == 0) {
    while (where->used >= most_used) {
      split(hash);
      where = &segment(hash);
    }
    at = place(*where, hash, page);
    ++where->used;
    ++size_;
  }
  where->slots[at] = {page, block};
}

void PageIndex::erase(uint64_t page) {
  const auto hash = mix(page);
  auto& where = segment(hash);
  auto hole = place(where, hash, page);
  if (where.slots[hole].block == 0)
    return;
  --where.used;
  --size_;
  // What was pushed on by others moves back, so that no probe ends early.
  for (auto at = (hole + 1) % slots; where.slots[at].block != 0;
       at = (at + 1) % slots) {
    const auto wish = home(mix(where.slots[at].page));
    if ((at - wish) % slots < (at - hole) % slots)
      continue;
    where.slots[hole] = where.slots[at];
    hole = at;
  }
  where.slots[hole] = {};
}

/// Hands half of the hashes of that segment to a new one.
void PageIndex::split(uint64_t hash) {
  auto& old = segment(hash);
  if (old.depth == depth_) {
    std::vector<Segment*> twice;
    twice.reserve(directory_.size() * 2);
    for (auto* each : directory_)
      twice.insert(twice.end(), 2, each);
    directory_ = std::move(twice);
    ++depth_;
  }
  segments_.push_back(std::make_unique<Segment>());
  auto& fresh = *segments_.back();
  fresh.depth = ++old.depth;
  const auto bit = uint64_t{1} << (64 - old.depth);
  const auto first = (hash | bit) >> (64 - old.depth) << (depth_ - old.depth);
  const auto count = size_t{1} << (depth_ - old.depth);
  for (size_t i = 0; i < count; ++i)
    directory_[first + i] = &fresh;
  Segment kept;
  kept.depth = old.depth;
  for (const auto& slot : old.slots) {
    if (slot.block == 0)
      continue;
    const auto its = mix(slot.page);
    auto& to = (its & bit) != 0 ? fresh : kept;
    to.slots[place(to, its, slot.page)] = slot;
    ++to.used;
  }
  old = kept;
}

uint64_t PageIndex::bytes() const {
  return segments_.size() * (sizeof(Segment) + sizeof(segments_[0]))
         + directory_.size() * sizeof(directory_[0]);
}

} // namespace troupe::kernels

#include "kernels/table/page_index.hpp"

#include <algorithm>

namespace troupe::kernels {

PageIndex::PageIndex() : first_{0} {
  leaves_.push_back(std::make_unique<Leaf>());
}

size_t PageIndex::leaf_of(uint64_t page, size_t from) const {
  // Mostly it is this one or one of the next.
  size_t step = 1;
  auto low = from;
  auto high = from + 1;
  while (high < first_.size() && first_[high] <= page) {
    low = high;
    high += step;
    step *= 2;
  }
  const auto end = first_.begin()
                   + static_cast<ptrdiff_t>(std::min(high, first_.size()));
  const auto after = std::upper_bound(
    first_.begin() + static_cast<ptrdiff_t>(low) + 1, end, page);
  return static_cast<size_t>(after - first_.begin()) - 1;
}

/// The first place whose page is not below `page`; none before `from` has it.
uint32_t PageIndex::place_in(const Leaf& leaf, uint64_t page, uint32_t from) {
  auto low = std::min(from, leaf.used);
  auto high = low;
  for (uint32_t step = 1; high < leaf.used && leaf.pages[high] < page;
       step *= 2) {
    low = high + 1;
    high += step;
  }
  const auto* end = leaf.pages + std::min(high, leaf.used);
  return static_cast<uint32_t>(std::lower_bound(leaf.pages + low, end, page)
                               - leaf.pages);
}

PageIndex::Found PageIndex::Cursor::find(uint64_t page) {
  const auto& first = index_.first_;
  if (leaf_ + 1 < first.size() && first[leaf_ + 1] <= page) {
    leaf_ = index_.leaf_of(page, leaf_ + 1);
    place_ = 0;
  }
  const auto* in = index_.leaves_[leaf_].get();
  place_ = place_in(*in, page, place_); // the first that is not before it
  auto leaf = leaf_;
  auto at = place_;
  if (at == in->used || in->pages[at] != page) { // the one before has it
    if (at > 0)
      --at;
    else if (leaf > 0) {
      in = index_.leaves_[--leaf].get();
      at = in->used - 1;
    } else if (in->used == 0)
      return {};
  }
  Found found{in->blocks[at], in->pages[at], ~uint64_t{0}};
  if (at + 1 < in->used)
    found.end = in->pages[at + 1];
  else if (leaf + 1 < index_.leaves_.size())
    found.end = index_.leaves_[leaf + 1]->pages[0];
  return found;
}

void PageIndex::Cursor::prefetch(uint64_t page) {
  const auto& first = index_.first_;
  ahead_ = std::max(ahead_, leaf_);
  if (ahead_ + 1 >= first.size() || first[ahead_ + 1] > page)
    return; // that leaf is known
  ahead_ = index_.leaf_of(page, ahead_ + 1);
  const auto leaf = ahead_;
  const auto& in = *index_.leaves_[leaf];
  for (uint32_t place = 0; place < most; place += most / 8)
    __builtin_prefetch(in.pages + place);
}

void PageIndex::put(uint64_t page, uint64_t block) {
  auto at = leaf_of(page);
  auto place = place_in(*leaves_[at], page);
  if (place < leaves_[at]->used && leaves_[at]->pages[place] == page) {
    leaves_[at]->blocks[place] = block;
    return;
  }
  if (leaves_[at]->used == most) {
    split(at, place);
    at = leaf_of(page, at);
    place = place_in(*leaves_[at], page);
  }
  auto& leaf = *leaves_[at];
  std::copy_backward(leaf.pages + place, leaf.pages + leaf.used,
                     leaf.pages + leaf.used + 1);
  std::copy_backward(leaf.blocks + place, leaf.blocks + leaf.used,
                     leaf.blocks + leaf.used + 1);
  leaf.pages[place] = page;
  leaf.blocks[place] = block;
  ++leaf.used;
  ++size_;
}

void PageIndex::erase(uint64_t page) {
  const auto at = leaf_of(page);
  auto& leaf = *leaves_[at];
  const auto place = place_in(leaf, page);
  if (place == leaf.used || leaf.pages[place] != page)
    return;
  std::copy(leaf.pages + place + 1, leaf.pages + leaf.used, leaf.pages + place);
  std::copy(leaf.blocks + place + 1, leaf.blocks + leaf.used,
            leaf.blocks + place);
  --leaf.used;
  --size_;
  if (leaf.used > 0 || leaves_.size() == 1)
    return;
  first_.erase(first_.begin() + static_cast<ptrdiff_t>(at));
  leaves_.erase(leaves_.begin() + static_cast<ptrdiff_t>(at));
  first_.front() = 0;
}

/// Hands the upper half of a full leaf to a new one; where the next page comes
/// last, nothing: so pages that come in order fill their leaves.
void PageIndex::split(size_t at, uint32_t place) {
  auto& leaf = *leaves_[at];
  const auto kept = place == most ? most : most / 2;
  auto fresh = std::make_unique<Leaf>();
  std::copy(leaf.pages + kept, leaf.pages + most, fresh->pages);
  std::copy(leaf.blocks + kept, leaf.blocks + most, fresh->blocks);
  fresh->used = most - kept;
  const auto first = kept < most ? fresh->pages[0] : leaf.pages[most - 1] + 1;
  leaf.used = kept;
  first_.insert(first_.begin() + static_cast<ptrdiff_t>(at) + 1, first);
  leaves_.insert(leaves_.begin() + static_cast<ptrdiff_t>(at) + 1,
                 std::move(fresh));
}

uint64_t PageIndex::bytes() const {
  return leaves_.size()
         * (sizeof(Leaf) + sizeof(first_[0]) + sizeof(leaves_[0]));
}

} // namespace troupe::kernels

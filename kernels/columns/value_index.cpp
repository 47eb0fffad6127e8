#include "kernels/columns/value_index.hpp"

#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/random.hpp"

#include <cstring>

namespace troupe {

namespace {

/// Texts that somebody made for one seed do not meet under another.
uint64_t seeded_hash(std::string_view text, uint64_t seed) {
  auto hash = kernels::mix(seed + kernels::golden * (text.size() + 1));
  while (text.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = kernels::mix(hash ^ word);
    text.remove_prefix(8);
  }
  uint64_t word = 0;
  if (!text.empty())
    std::memcpy(&word, text.data(), text.size());
  return kernels::mix(hash ^ word);
}

/// Steps to a free slot beyond which texts are taken to be made to meet.
constexpr size_t longest_walk = 1024;
constexpr size_t first_slots = 64;

} // namespace

/// Whether the text is there: in `slot`, else where it would be.
bool ValueIndex::find(std::string_view wanted, uint64_t hash,
                      size_t& slot) const {
  const auto mask = slots_.size() - 1;
  for (slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const auto number = slots_[slot] - 1;
    if (hashes_[number] == hash && text(number) == wanted)
      return true;
  }
  return false;
}

bool ValueIndex::has(std::string_view text) const {
  size_t slot = 0;
  return !slots_.empty() && find(text, seeded_hash(text, seed_), slot);
}

void ValueIndex::rebuild(size_t slots) {
  slots_.assign(slots, 0);
  for (uint32_t i = 0; i < size(); ++i) {
    hashes_[i] = seeded_hash(text(i), seed_);
    size_t slot = hashes_[i] & (slots - 1);
    while (slots_[slot] != 0)
      slot = (slot + 1) & (slots - 1);
    slots_[slot] = i + 1;
  }
}

uint32_t ValueIndex::add(std::string_view added) {
  if (slots_.empty())
    slots_.resize(first_slots);
  auto hash = seeded_hash(added, seed_);
  size_t slot = 0;
  if (find(added, hash, slot))
    return slots_[slot] - 1;
  if (((slot - hash) & (slots_.size() - 1)) > longest_walk) {
    seed_ = kernels::mix(seed_ + kernels::golden);
    rebuild(slots_.size());
    hash = seeded_hash(added, seed_);
    find(added, hash, slot);
  }
  const auto number = size();
  make_room(hashes_, 1, "a column");
  make_room(ends_, 1, "a column");
  make_room(bytes_, added.size(), "a column");
  hashes_.push_back(hash);
  bytes_.insert(bytes_.end(), added.begin(), added.end());
  ends_.push_back(bytes_.size());
  slots_[slot] = number + 1;
  if (2 * (size_t{number} + 1) > slots_.size())
    rebuild(2 * slots_.size());
  return number;
}

} // namespace troupe

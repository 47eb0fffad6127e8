#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::kernels {

/// Finds a page's block by its number. Grows by splitting one small segment at
/// a time, so no insertion waits for the whole to be hashed again.
/// Source: extendible hashing, Fagin et al., 1979; linear probing inside a
/// segment.
class PageIndex {
public:
  PageIndex();

  /// The block of a page; 0: there is none.
  uint64_t find(uint64_t page) const;
  /// Brings what find() reads first towards the processor.
  void prefetch(uint64_t page) const;
  /// Sets or replaces a page's block, which is not 0.
  void put(uint64_t page, uint64_t block);
  void erase(uint64_t page);

  size_t size() const { return size_; }
  uint64_t bytes() const;

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& segment : segments_)
      for (const auto& slot : segment->slots)
        if (slot.block != 0)
          visit(slot.page, slot.block);
  }

private:
  static constexpr size_t slots = 256;
  static constexpr size_t most_used = slots * 4 / 5;
  struct Slot {
    uint64_t page = 0;
    uint64_t block = 0;
  };
  struct Segment {
    uint32_t depth = 0; ///< so many leading bits of the hash are its own
    uint32_t used = 0;
    Slot slots[PageIndex::slots];
  };

  static size_t home(uint64_t hash) { return hash % slots; }
  Segment& segment(uint64_t hash) const {
    return *directory_[depth_ == 0 ? 0 : hash >> (64 - depth_)];
  }
  static size_t place(const Segment& segment, uint64_t hash, uint64_t page);
  void split(uint64_t hash);

  uint32_t depth_ = 0;
  size_t size_ = 0;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Segment*> directory_; ///< by the leading bits of the hash
};

} // namespace troupe::kernels

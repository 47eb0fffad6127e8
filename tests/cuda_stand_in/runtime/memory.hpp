#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cuda_stand_in {

/// Who touches memory, as the race checks tell threads apart: two threads of a
/// block are ordered by the barriers between them alone, two blocks by nothing.
/// One number: launch 16 bits, block 24, barriers that the block has passed 12,
/// thread 10, whether the access took the whole word, whether several threads
/// are meant.
using Access = uint64_t;
constexpr Access wide_bit = 2;
constexpr Access many_bit = 1;
constexpr uint32_t every_block = (1u << 24) - 1;

/// Launch: from 1, below Memory::max_launches.
constexpr Access access_by(uint32_t launch, uint32_t block, uint32_t barriers,
                           uint32_t thread) {
  return uint64_t{launch & 0xffff} << 48 | uint64_t{block % every_block} << 24
         | uint64_t{barriers & 0xfff} << 12 | uint64_t{thread} << 2;
}

/// Tells whether nothing orders another access of the same launch before one.
inline bool unordered(Access other, Access own, bool shared) {
  const auto differs = other ^ own;
  if (differs >> 48 != 0)
    return false;
  if (differs >> 24 != 0)
    return !shared; // another block's shared memory is other memory
  return differs >> 12 == 0 && ((other & many_bit) != 0 || differs >> 2 != 0);
}

/// The memory of all devices, pinned memory and a block's shared memory, in one
/// reservation, and beside each word what is known of it: whether it is
/// allocated, whether anything has written it, which thread wrote and read it
/// last. Addresses are not given again before the region has been gone through.
/// Between pieces of work device memory cannot be reached: the host that
/// follows a device's pointer dies of it.
class Memory {
public:
  static constexpr uint32_t pinned = ~0u; ///< in place of a device
  static constexpr size_t shared_bytes = size_t{227} << 10;
  static constexpr uint32_t max_launches = 1u << 16;

  void start(uint32_t devices, size_t bytes_each);

  /// Null: there is not enough.
  void* allocate(uint32_t where, size_t bytes);
  /// Returns whether it was an allocation's begin there.
  bool release(uint32_t where, void* at);
  size_t free_bytes(uint32_t device) const;
  size_t device_bytes() const { return device_bytes_; }

  bool owns(const void* at) const;
  /// The device, or `pinned`, that an address of its regions belongs to.
  uint32_t place_of(const void* at) const;

  void open();  ///< before work of a device
  void close(); ///< after it

  // -- a block's shared memory --
  char* shared() const { return base_ + shared_at_; }
  void clear_shared(size_t offset, size_t bytes);
  void allow_shared(size_t offset, size_t bytes);

  /// Before launches are numbered from 1 again.
  void forget_accesses();
  /// Checks a thread's access, and notes it. Returns what is wrong with it.
  /// Bytes: 1, 2, 4, 8 or 16, aligned to that; `device` is the thread's.
  const char* access(const void* at, uint32_t bytes, bool writes,
                     uint32_t device, Access by);
  /// Checks what a copy or a library touches.
  /// Returns what is wrong, empty for nothing.
  std::string touch(const void* at, size_t bytes, bool writes, uint32_t device);

  /// Says where an address lies: "8 bytes beyond the end of 1024 at …".
  std::string describe(const void* at) const;

private:
  /// Whoever touched a word, or half of one, last. 0: nobody.
  struct Cell {
    uint64_t write;
    uint64_t read;
  };
  struct Block {
    size_t bytes;
    bool lives;
  };
  struct Region {
    size_t begin;
    size_t end;
    size_t next = 0;
    size_t used = 0;
    std::map<size_t, Block> blocks; ///< by offset; freed ones until reused
  };

  const Region& region(uint32_t where) const;
  Region& region(uint32_t where);
  void mark(size_t offset, size_t bytes, uint8_t low, bool set);
  static const char* races(Cell& cell, bool writes, bool shared, Access own);

  char* base_ = nullptr;
  size_t total_ = 0;
  size_t device_bytes_ = 0;
  size_t shared_at_ = 0;
  uint32_t devices_ = 0;
  uint8_t* state_ = nullptr; ///< of each word: 4 bits allocated, 4 written
  Cell* cells_ = nullptr;    ///< of each half word
  size_t state_bytes_ = 0;
  size_t cells_bytes_ = 0;
  std::vector<Region> regions_; ///< of devices, then of pinned memory
};

// Kernels come through these for each access: they are inlined where its size
// is known.

[[gnu::always_inline]] inline const char*
Memory::races(Cell& cell, bool writes, bool shared, Access own) {
  if (!writes && (cell.read | many_bit) == (own | many_bit)
      && (cell.write ^ own) >> 48 != 0)
    return nullptr;
  if (unordered(cell.write, own, shared))
    return writes ? "writes what another thread writes unordered"
                  : "reads what another thread writes unordered";
  if (writes) {
    if (unordered(cell.read, own, shared))
      return "writes what another thread reads unordered";
    cell.write = own;
    return nullptr;
  }
  const auto before = cell.read;
  const auto differs = before ^ own;
  auto now = own;
  if (differs >> 48 == 0) {
    if (differs >> 24 != 0) // of several blocks: none may write it any more
      now = shared ? own : own | uint64_t{every_block} << 24 | many_bit;
    else if (differs >> 12 == 0)
      now = own | (before & many_bit) | (differs >> 2 != 0 ? many_bit : 0);
  }
  cell.read = now;
  return nullptr;
}

[[gnu::always_inline]] inline const char*
Memory::access(const void* at, uint32_t bytes, bool writes, uint32_t device,
               Access by) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(at) - base_);
  if (offset >= total_)
    return "touches the host's memory";
  if (offset % bytes != 0)
    return "touches memory at an address that is no multiple of its size";
  const bool shared = offset >= shared_at_;
  if (offset - device * device_bytes_ >= device_bytes_
      && offset < devices_ * device_bytes_)
    return "touches another device's memory";
  const bool wide = bytes >= 4;
  const auto own = by | (wide ? wide_bit : 0);
  const auto end = offset + bytes;
  for (auto at_word = offset / 4 * 4; at_word < end; at_word += 4) {
    auto& state = state_[at_word / 4];
    const uint32_t part = wide ? 0xf : ((1u << bytes) - 1) << offset % 4;
    const auto known = state;
    if ((known & part) != part)
      return writes ? "writes outside of what is allocated"
                    : "reads outside of what is allocated";
    if ((known >> 4 & part) != part) {
      if (!writes)
        return "reads what nothing has written";
      state = static_cast<uint8_t>(known | part << 4);
    }
    if (bytes == 1)
      continue; // neighbours of a half word are not told apart
    auto* cells = cells_ + at_word / 2;
    const bool upper = !wide && offset % 4 == 2;
    if (const auto* wrong = races(cells[upper], writes, shared, own))
      return wrong;
    // The other half's last access counts where one of the two took the word.
    const auto& other = cells[!upper];
    const bool meets_write = wide || (other.write & wide_bit) != 0;
    const bool meets_read = wide || (other.read & wide_bit) != 0;
    if (meets_write && unordered(other.write, own, shared))
      return "touches half of a word that another thread writes unordered";
    if (writes && meets_read && unordered(other.read, own, shared))
      return "writes half of a word that another thread reads unordered";
  }
  return nullptr;
}

} // namespace cuda_stand_in

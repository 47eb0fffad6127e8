#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cuda_stand_in {

/// Who touches memory, as the race checks tell threads apart: two threads of a
/// block are ordered by the barriers between them alone, two blocks by nothing.
struct Access {
  uint32_t launch; ///< from 1, below max_launches
  uint32_t block;
  uint32_t barriers; ///< that the block has passed
  uint32_t thread;
};

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
                     uint32_t device, const Access& by);
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
  const char* races(Cell& cell, bool writes, bool wide, bool shared,
                    const Access& by);

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

} // namespace cuda_stand_in

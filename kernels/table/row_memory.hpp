#pragma once

#include "kernels/table/id_pages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// How rows of a table lie in a block: those of some pages that follow one
/// another, packed in order of the ids, values and each slot of state in a run
/// of their own, which is what an optimizer's loop wants.
///
///   head | pages | ranks | words [rows] | values [rows, width] | state …
struct RowShape {
  size_t width = 0;
  uint32_t slots = 0;     ///< of optimizer state
  bool with_word = false; ///< of 64 bits, for what the table counts by row
  /// Bytes of rows above which some are given up; 0: none. Memory is cut into
  /// less then: what is free of a slab should be a small part of so little.
  uint64_t limit = 0;

  size_t row_floats() const { return width * (1 + slots); }
  size_t row_bytes() const {
    return row_floats() * sizeof(float) + (with_word ? sizeof(uint64_t) : 0);
  }
  /// Of a block; one page's always fit.
  uint32_t max_rows() const;
  /// Bytes before the rows, and of a block.
  static size_t head_bytes(size_t pages);
  size_t block_bytes(size_t pages, size_t rows) const {
    return head_bytes(pages) + rows * row_bytes();
  }
};

/// A block of a table; lies in RowMemory.
struct RowBlock {
  uint64_t next;   ///< of a free block: where the next free one lies
  uint64_t filled; ///< pages << 32 | rows; 0: it is free

  uint32_t pages() const { return static_cast<uint32_t>(filled >> 32); }
  uint32_t rows() const { return static_cast<uint32_t>(filled); }
  IdPage* ids() { return reinterpret_cast<IdPage*>(this + 1); }
  const IdPage* ids() const {
    return reinterpret_cast<const IdPage*>(this + 1);
  }
  /// The rows before each page.
  uint16_t* ranks() { return reinterpret_cast<uint16_t*>(ids() + pages()); }
  const uint16_t* ranks() const {
    return reinterpret_cast<const uint16_t*>(ids() + pages());
  }
  std::byte* packed() {
    return reinterpret_cast<std::byte*>(this) + RowShape::head_bytes(pages());
  }
};

/// Memory that blocks are cut from: a range of addresses, of which pages are
/// taken as they are touched, anonymous or in a file descriptor that outlives
/// the process. Blocks of a size come from slabs; nothing moves. A slab of
/// which all blocks are free again is cut anew for any size, so a table whose
/// blocks grow holds little more than its rows. What a killed process has left
/// can be walked: each slab says what it is cut into, each block whether it is
/// taken. Owner: one thread.
class RowMemory {
public:
  static constexpr uint64_t max_bytes = uint64_t{1} << 36;

  /// Maps the range [offset, offset + max_bytes) of `descriptor`, which is
  /// made long enough; -1: anonymous memory.
  /// Errors: std::runtime_error when it cannot be had, NoRoomError of one that
  /// lies in bounds.
  RowMemory(RowShape shape, int descriptor, uint64_t offset);
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  const RowShape& shape() const { return shape_; }

  RowBlock* at(uint64_t block) {
    return reinterpret_cast<RowBlock*>(memory_ + block);
  }
  uint64_t place(const RowBlock* block) const {
    return static_cast<uint64_t>(reinterpret_cast<const std::byte*>(block)
                                 - memory_);
  }
  /// A free block of so many bytes or some more; it counts as free until it
  /// says what it is filled with.
  /// Errors: NoRoomError where the file lies in bounds.
  uint64_t take(uint64_t bytes);
  /// The block is free from here on.
  void give(uint64_t block);
  /// Everything is free; memory goes back to the system.
  void clear();

  uint64_t bytes() const; ///< of pages that were touched, used or free

  /// The blocks that an earlier process has left filled; the others become
  /// free.
  std::vector<uint64_t> recover();
  bool recovered() const { return !slabs_.empty(); }

  /// Room for the rows as they were before an update, apart from all blocks.
  static constexpr uint64_t max_undo_bytes = max_bytes / 4;
  static constexpr uint64_t undo_begin = max_bytes - max_undo_bytes;
  std::byte* undo() { return memory_ + undo_begin; }
  const std::byte* undo() const { return memory_ + undo_begin; }
  /// Its first so many bytes are to be written.
  /// Errors: NoRoomError where the file lies in bounds.
  void need_undo(uint64_t bytes);

private:
  struct Head;
  static constexpr uint64_t page_bytes = 4096;
  static constexpr uint64_t slab_head_bytes = 64;
  static constexpr uint32_t nowhere = ~uint32_t{0};
  struct Slab {
    uint32_t size = 0;  ///< index into sizes_
    uint32_t taken = 0; ///< blocks
    uint64_t free = 0;  ///< the first free block, each names the next; 0: none
    uint64_t fresh = 0; ///< from here on nothing has been taken
    uint64_t touched = 0;     ///< nor written, however it was cut before
    uint32_t place = nowhere; ///< among those with room, or the empty ones
  };
  uint32_t size_for(uint64_t bytes) const;
  uint64_t begin(uint32_t slab) const {
    return page_bytes + slab * slab_bytes_;
  }
  uint64_t first_block(uint32_t slab) const {
    return begin(slab) + slab_head_bytes;
  }
  uint32_t slab_of(uint64_t block) const {
    return static_cast<uint32_t>((block - page_bytes) / slab_bytes_);
  }
  bool has_room(uint32_t slab) const;
  std::vector<uint32_t>& shelf_of(const Slab& slab);
  void put_free(Slab& slab, uint64_t block);
  void shelve(uint32_t slab);
  void unshelve(uint32_t slab);
  uint32_t new_slab(uint32_t size);
  void walk();
  void take_file(uint64_t begin, uint64_t bytes);
  Head& head() const;

  RowShape shape_;
  std::byte* memory_ = nullptr;
  int descriptor_ = -1;
  uint64_t offset_ = 0;
  bool bounded_ = false; ///< lies_in_bounds()
  uint64_t undo_taken_ = page_bytes;
  uint64_t slab_bytes_ = 0;
  std::vector<uint64_t> sizes_; ///< bytes of blocks
  std::vector<Slab> slabs_;
  std::vector<std::vector<uint32_t>> roomy_; ///< slabs, by size
  std::vector<uint32_t> empty_; ///< slabs without a block that is taken
};

} // namespace troupe::kernels

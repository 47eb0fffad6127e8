#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// How rows of a table lie in a block: so many rows of one page, packed in
/// order of the ids, values and each slot of state in a run of their own, which
/// is what an optimizer's loop wants.
///
///   page | bits | touched [rows] | values [rows, width] | state [rows, width]…
struct RowShape {
  size_t width = 0;
  uint32_t slots = 0;   ///< of optimizer state
  bool counted = false; ///< rows know when and how often they were touched

  size_t row_floats() const { return width * (1 + slots); }
  size_t row_bytes() const {
    return row_floats() * sizeof(float) + (counted ? sizeof(uint64_t) : 0);
  }
};

/// A block of a table; lies in RowMemory.
struct RowBlock {
  uint64_t page;
  uint64_t bits; ///< 0: it is free
};

/// Memory that blocks are cut from: a range of addresses, of which pages are
/// taken as they are touched, anonymous or in a file descriptor that outlives
/// the process. Blocks of a size come from slabs and go back to a list; nothing
/// moves. What a killed process has left can be walked: each slab says what it
/// is cut into, each block which page it is of.
/// Owner: one thread.
class RowMemory {
public:
  static constexpr uint64_t most_bytes = uint64_t{1} << 36;
  /// Rows that blocks are made for.
  static constexpr std::array<uint32_t, 12> sizes{1,  2,  3,  4,  6,  8,
                                                  12, 16, 24, 32, 48, 64};

  /// Maps the range [offset, offset + most_bytes) of `descriptor`, which is
  /// made long enough; -1: anonymous memory.
  /// Errors: std::runtime_error when it cannot be had.
  RowMemory(RowShape shape, int descriptor, uint64_t offset);
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  const RowShape& shape() const { return shape_; }

  RowBlock* at(uint64_t block) {
    return reinterpret_cast<RowBlock*>(memory_ + block);
  }
  const RowBlock* at(uint64_t block) const {
    return reinterpret_cast<const RowBlock*>(memory_ + block);
  }
  uint64_t place(const RowBlock* block) const {
    return static_cast<uint64_t>(reinterpret_cast<const std::byte*>(block)
                                 - memory_);
  }
  /// A free block for `rows` rows; it is no page's until its bits are set, as
  /// many as it has rows.
  uint64_t take(uint32_t rows);
  /// The block is free from here on.
  void give(uint64_t block);
  /// Everything is free; memory goes back to the system.
  void clear();

  uint64_t bytes() const; ///< of slabs, whether used or free

  /// Calls visit(block) for each block with bits after a start with memory that
  /// an earlier process left; the others become free.
  template <class Visit>
  void recover(Visit visit) {
    for (const auto& slab : slabs_)
      for (auto block = slab.first; block + block_bytes_[slab.size] <= slab.end;
           block += block_bytes_[slab.size])
        if (at(block)->bits != 0)
          visit(block);
        else
          free_[slab.size].push_back(block);
  }
  bool recovered() const { return !slabs_.empty(); }

  /// Room for the rows as they were before an update, apart from all blocks.
  static constexpr uint64_t most_undo_bytes = most_bytes / 4;
  std::byte* undo() { return memory_ + (most_bytes - most_undo_bytes); }
  const std::byte* undo() const {
    return memory_ + (most_bytes - most_undo_bytes);
  }

private:
  struct Head;
  struct Slab {
    uint64_t first = 0; ///< block
    uint64_t end = 0;
    uint32_t size = 0; ///< index into sizes
  };
  static uint32_t size_for(uint32_t rows);
  void add_slab(uint32_t size);
  void walk();
  Head& head() const;

  RowShape shape_;
  std::byte* memory_ = nullptr;
  int descriptor_ = -1;
  uint64_t offset_ = 0;
  std::array<uint64_t, sizes.size()> block_bytes_{};
  std::vector<Slab> slabs_;
  std::array<std::vector<uint64_t>, sizes.size()> free_;
};

} // namespace troupe::kernels

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::kernels {

/// Where the blocks of a table lie, by the first page of each. Entries lie in
/// order in leaves of some hundred, so a batch of ids, which ascends, goes
/// through memory forwards. Growing splits one leaf; of all leaves only the
/// list of their first pages moves along.
class PageIndex {
public:
  PageIndex();

  /// The block that has a page, if any has: the last one that begins at or
  /// before it; before all of them, the first.
  struct Found {
    uint64_t block = 0; ///< 0: there are no blocks at all
    uint64_t first = 0;
    uint64_t end = ~uint64_t{0}; ///< where the next block begins
  };
  Found find(uint64_t page) const { return Cursor{*this}.find(page); }
  /// Sets or replaces the block, not 0, that begins at a page.
  void put(uint64_t first, uint64_t block);
  void erase(uint64_t first);

  size_t size() const { return size_; }
  uint64_t bytes() const;

  /// In order of the pages.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& leaf : leaves_)
      for (uint32_t i = 0; i < leaf->used; ++i)
        visit(leaf->pages[i], leaf->blocks[i]);
  }

private:
  static constexpr uint32_t most = 256;
  struct Leaf {
    uint32_t used = 0;
    uint64_t pages[most];
    uint64_t blocks[most];
  };

public:
  /// Finds pages that ascend, each from where the one before was. Void once
  /// anything is put or erased.
  class Cursor {
  public:
    explicit Cursor(const PageIndex& index) : index_(index) {}
    Found find(uint64_t page);
    /// Brings what find() reads towards the processor; ascending as well.
    void prefetch(uint64_t page);

  private:
    const PageIndex& index_;
    size_t leaf_ = 0;
    uint32_t place_ = 0; ///< in the leaf: no page before is asked for
    size_t ahead_ = 0;   ///< leaf that was prefetched last
  };

private:
  /// The leaf that a page belongs to, from `from` on.
  size_t leaf_of(uint64_t page, size_t from = 0) const;
  static uint32_t place_in(const Leaf& leaf, uint64_t page, uint32_t from = 0);
  void split(size_t leaf, uint32_t place);

  size_t size_ = 0;
  std::vector<uint64_t> first_; ///< by leaf: the least page it can have
  std::vector<std::unique_ptr<Leaf>> leaves_;
};

} // namespace troupe::kernels

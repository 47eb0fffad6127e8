#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::kernels {

/// Finds a page's block by its number. Pages lie in order in leaves of some
/// hundred, so a batch of ids, which ascends, goes through memory forwards, and
/// what it reads of neighbouring pages is read once. Growing splits one leaf;
/// of all leaves only the list of their first pages moves along.
class PageIndex {
public:
  PageIndex();

  /// The block of a page; 0: there is none.
  uint64_t find(uint64_t page) const;
  /// Sets or replaces a page's block, which is not 0.
  void put(uint64_t page, uint64_t block);
  void erase(uint64_t page);

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
  /// Finds pages that ascend, each from where the one before was. Between two
  /// of them pages may be put, none erased.
  class Cursor {
  public:
    explicit Cursor(const PageIndex& index) : index_(index) {}
    uint64_t find(uint64_t page);
    /// Brings what find() reads towards the processor; ascending as well.
    void prefetch(uint64_t page);

  private:
    const PageIndex& index_;
    size_t leaf_ = 0;
    uint32_t place_ = 0; ///< in the leaf: no page before is asked for
    size_t ahead_ = 0;   ///< leaf that was prefetched last
  };

private:
  /// The leaf that has the page if any has, from `from` on.
  size_t leaf_of(uint64_t page, size_t from = 0) const;
  static uint32_t place_in(const Leaf& leaf, uint64_t page, uint32_t from = 0);
  void split(size_t leaf, uint32_t place);

  size_t size_ = 0;
  std::vector<uint64_t> first_; ///< by leaf: the least page it can have
  std::vector<std::unique_ptr<Leaf>> leaves_;
};

} // namespace troupe::kernels

#pragma once

#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// Ids that a table is asked for, perhaps again and again, and where it has
/// them: that is found out once, and anew after rows have come or gone.
/// Owner: one thread at a time.
class RowList {
public:
  RowList() = default;
  RowList(IdPages pages)
    : pages_(std::move(pages)), count_(count_ids(pages_)) {}

  const IdPages& pages() const { return pages_; }
  uint64_t count() const { return count_; } ///< ids

  /// Pages that one block has, or would have.
  struct Visit {
    uint64_t block = 0; ///< 0: there is none
    uint32_t begin = 0; ///< places in pages()
    uint32_t end = 0;
    bool whole = false; ///< they are all that the block has
    std::span<const IdPage> of(const RowList& list) const {
      return std::span{list.pages()}.subspan(begin, end - begin);
    }
  };

private:
  friend class RowBlocks;
  IdPages pages_;
  uint64_t count_ = 0;
  mutable std::vector<Visit> visits_;
  mutable uint64_t table_ = 0; ///< that visits_ are of
  mutable uint64_t state_ = 0; ///< of that table, then
};

} // namespace troupe

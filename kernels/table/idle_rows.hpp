#pragma once

#include "kernels/cpu/optimizer_loops.hpp"
#include "kernels/table/table_options.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace troupe::kernels {

/// Rows that lack the same updates: where they lie, and where they are wanted,
/// side by side.
struct LateRows {
  uint64_t updates = 0; ///< that they have had
  const float* from = nullptr;
  size_t from_run = 0; ///< from their values to their first slot, to the next
  float* to = nullptr; ///< may be `from`
  size_t to_run = 0;
  size_t floats = 0; ///< of a run: their widths
};

/// Has rows make up the updates that they lacked, in which they had no
/// gradient: with the bits that each update at its time would have given.
class MissedUpdates {
public:
  MissedUpdates(size_t width, uint32_t slots, IdleUpdates idle);

  /// Whether any row may lack one.
  bool any() const { return idle_.any(); }
  bool lacks(uint64_t updates, uint64_t version) const {
    return updates < version
           && (updates > 0 || idle_.kind == IdleUpdate::moves);
  }
  /// Adds a row, which lacks some; rows side by side are one entry.
  void add(std::vector<LateRows>& late, const LateRows& row) const;
  /// Writes the first `runs` of each row (values, then slots of state) as they
  /// are after `version` updates.
  void make_up(std::span<const LateRows> late, uint64_t version,
               uint32_t runs) const;

  /// Works out the constants of updates [begin, end) ahead, and forgets others;
  /// what is not there is worked out where it is needed.
  void prepare(uint64_t begin, uint64_t end);

private:
  UpdateTerms terms_of(uint64_t updates) const;
  void make_up_some(std::span<const LateRows> late, uint64_t version,
                    uint32_t runs) const;

  const uint32_t slots_;
  const IdleUpdates idle_;
  std::vector<float> gradient_; ///< zeros, as many as are updated at once
  std::deque<UpdateTerms> terms_;
  uint64_t first_ = 0; ///< update that terms_ begin with
};

/// Which rows an update brings along though nobody asks: in turn, so that none
/// comes to lack many. Decides no bit.
class RowSweep {
public:
  /// Updates that bring all rows along once. More save memory traffic and make
  /// each row that is read compute longer.
  static constexpr uint64_t cycle = 16;

  /// All rows have had so many updates; or one of them no more.
  void begin(uint64_t updates) {
    page_ = 0;
    oldest_ = updates;
    begun_ = updates + 1;
  }
  /// From where on, and how many at least.
  uint64_t page() const { return page_; }
  static uint64_t share(uint64_t rows) { return (rows + cycle - 1) / cycle; }
  /// The update to `version` has brought along what lies before `page`; 0: all
  /// the rest.
  void passed(uint64_t page, uint64_t version);
  /// No row lacks an update before this one.
  uint64_t oldest() const { return oldest_; }

private:
  uint64_t page_ = 0;
  uint64_t begun_ = 0; ///< what rows have had at least that it has passed
  uint64_t oldest_ = 0;
};

} // namespace troupe::kernels

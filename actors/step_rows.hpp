#pragma once

#include "actors/job.hpp"
#include "actors/leaf_computer.hpp"
#include "actors/tensor_view.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// The rows of sparse tables that a worker's samples of one step touch: it
/// pulls those, computes with tables that hold nothing else, in order of the
/// ids, and pushes what became of them. All tables of a model are read by the
/// same ids, so a row has one place in all of them.
class StepRows {
public:
  /// Errors: InputError for an id outside a table.
  StepRows(const Job& job, const Dataset& data, uint64_t step,
           const std::vector<RankRange>& nodes);

  size_t count() const { return ids_.size(); }

  /// What to ask the owner of a part of a table for.
  TensorView wanted(const Slice& slice) const;
  /// Puts pulled rows where the worker's graph reads them.
  /// Errors: false where they are not what was wanted.
  bool put(const Slice& slice, const TensorView& values,
           float* parameters) const;
  /// Gives a micro-batch's ids the numbers of their rows; -1 stays.
  void renumber(int32_t* ids, size_t count) const;
  /// The rows of a node's sum that its samples touched; empty of none.
  TensorView pushed(const Slice& slice, const NodeSum& node) const;

private:
  struct Part { // of all tables with as many partitions
    std::vector<uint32_t> places;
    IdPages pages;
    std::vector<std::byte> bytes; ///< the pages, encoded
  };
  struct Cut {
    uint32_t partitions = 0;
    std::vector<Part> parts;
  };

  void collect(const Dataset& data, uint64_t step, RankRange node,
               std::vector<bool>* touched);
  void add(int32_t id);
  uint32_t place_of(int32_t id) const;
  void number();
  void cut(uint32_t partitions);
  const Part& part_of(const Slice& slice) const;

  struct Slot {
    int32_t id = -1;
    uint32_t place = 0;
  };
  Slot& slot(int32_t id);

  const Job& job_;
  int64_t vocabulary_; ///< of the smallest table
  std::vector<int32_t> ids_;
  std::vector<Slot> slots_; ///< open addressing, a power of two of them
  std::vector<Cut> cuts_;
  std::vector<RankRange> nodes_;
  std::vector<std::vector<bool>> touched_; ///< by node, places; empty: one node
};

} // namespace troupe

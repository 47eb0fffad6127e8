#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/told_lists.hpp"
#include "actors/job/job.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// The rows of sparse tables that a worker's samples of one step touch: it
/// pulls those, computes with tables that hold nothing else, and pushes what
/// became of them. All tables of a model are read by the same ids, so a row has
/// one place in all of them. Rows of a part lie side by side there, in order of
/// the ids, where the tables have equally many parts, so that what is pulled
/// and pushed is copied at once; those of a page always do.
class StepRows {
public:
  /// The samples of a node, in order.
  using Indices = std::vector<uint64_t>;
  /// What is sent is made in `memory` where there is some.
  /// Errors: InputError for an id outside a table.
  StepRows(const Job& job, const Dataset& data,
           const std::vector<RankRange>& nodes,
           const std::vector<Indices>& samples,
           std::shared_ptr<LinkMemory> memory = nullptr,
           std::shared_ptr<ToldLists> told = nullptr);

  size_t count() const { return count_; }

  /// What to ask the owner of a part of a table for.
  const TensorView& wanted(const Slice& slice) const {
    return wanted_[slice.id].whole;
  }
  /// The same, or the name alone if the owner knows that; from here on it does.
  const TensorView& pull(const Slice& slice) const;
  /// Puts pulled rows where the worker's graph reads them.
  /// Errors: false where they are not what was wanted.
  bool put(const Slice& slice, const TensorView& values,
           float* parameters) const;
  /// Gives a micro-batch's ids the numbers of their rows; -1 stays.
  void renumber(int32_t* ids, size_t count) const;
  /// The rows of a node's sum that its samples touched; empty of none.
  TensorView pushed(const Slice& slice, const NodeSum& node) const;

private:
  struct Part {                   // of all tables with as many partitions
    std::vector<uint32_t> pages;  ///< places in pages_
    std::vector<std::byte> bytes; ///< the ids, encoded
    ListName name;                ///< of those
    uint64_t rows = 0;
  };
  struct Cut {
    uint32_t partitions = 0;
    bool side_by_side = false; ///< the rows of each part
    std::vector<Part> parts;
  };
  struct Wanted {
    TensorView whole;
    TensorView named;
  };

  std::vector<int32_t> sorted_ids(const Dataset& data,
                                  const std::vector<Indices>& samples) const;
  void find_pages(const std::vector<int32_t>& ids);
  uint32_t page_of(int32_t id) const;
  uint32_t place_of(int32_t id) const;
  void mark(const Dataset& data, const std::vector<Indices>& samples);
  void cut(uint32_t partitions);
  void number(const Cut& by);
  const Cut& cut_of(const Slice& slice) const;
  TensorView pushed_of(const Slice& slice, const Part& part,
                       const std::vector<uint64_t>& touched,
                       const float* table) const;

  const Job& job_;
  std::shared_ptr<LinkMemory> memory_;
  std::shared_ptr<ToldLists> told_; ///< null: nobody knows lists by name
  std::vector<RankRange> nodes_;
  IdPages pages_;                ///< of all ids
  size_t count_ = 0;             ///< ids
  std::vector<uint32_t> first_;  ///< place of a page's first row
  std::vector<uint32_t> starts_; ///< the first page whose number >> shift_ is i
  uint32_t shift_ = 0;
  std::vector<Cut> cuts_;
  std::vector<Wanted> wanted_; ///< by slice
  /// By node and page: ids that its samples have. Empty: one node.
  std::vector<std::vector<uint64_t>> touched_;
};

/// The samples of each node of a step.
std::vector<StepRows::Indices> samples_of(Sampling& sampling, uint64_t step,
                                          const std::vector<RankRange>& nodes);

} // namespace troupe

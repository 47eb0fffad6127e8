#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// The rows of sparse tables that the evaluation's samples read: shards are
/// told of them and show no others, and the evaluator computes with tables that
/// hold nothing else, in order of the ids.
class EvaluatedRows {
public:
  EvaluatedRows(const Job& job, const Dataset& data);

  uint64_t count() const { return count_; }
  /// The ids of a part of a table, as a pull says them. Errors: nullopt for
  /// more than a message may hold.
  std::optional<TensorView> wanted(const Slice& slice) const;
  /// The graph for samples whose ids are renumbered.
  Graph graph() const;
  /// Gives ids the numbers of their rows; -1 stays.
  void renumber(int32_t* ids, size_t count) const;

  /// Writes what the rows of a table begin with. Shapes: [count(), width].
  void initialise(uint32_t variable, float* table) const;
  /// Copies the values of those among a chunk of copied rows; the others are
  /// left out. Shapes: table [count(), width].
  void put(const Slice& slice, const TensorView& chunk, float* table) const;

private:
  const Job& job_;
  IdPages pages_;
  std::vector<uint32_t> first_; ///< by page: number of its first row
  uint64_t count_ = 0;
};

} // namespace troupe

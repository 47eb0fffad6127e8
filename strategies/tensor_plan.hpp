#pragma once

#include "strategies/rank_tree.hpp"
#include "strategies/tree_addends.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// An operator of a graph in virtual slices, as a group of tensor members sees
/// it.
struct TensorOp {
  enum class Kind : uint8_t {
    computes,
    sums,  ///< of two nodes' partial sums the forward pass makes one
    shares ///< an input for two nodes: the backward pass adds their gradients
  };
  Kind kind = Kind::computes;
  std::optional<RankRange> slices; ///< node of the tree; empty: all have it
  std::vector<uint32_t> variables; ///< that it uses
  uint64_t flops = 0;              ///< of a sample, forward and backward
  uint64_t bytes = 0;              ///< of its output, of a sample
};

/// What a member does with an operator.
enum class TensorDuty : uint8_t {
  compute,
  exchange, ///< members' sums are added up along the tree
  skip,     ///< it is others', or an inner node of an exchange
};

/// The virtual slices of member `index` of `members`; they divide `slices`.
RankRange slices_of_member(uint32_t index, uint32_t members, uint32_t slices);

/// Says why so many members cannot have so many slices: each has equally many,
/// and they are one node of the tree. One line, which names the flags; `layout`
/// is the one that says how many members there are, --tensor unless it is
/// given.
std::optional<std::string> mistake_of_tensor(uint32_t members, uint32_t slices,
                                             const std::string& layout = "");

/// What the member that has `own` does with each operator. It computes what is
/// of its slices, and what is of none; at the root of each tree it exchanges.
/// With all slices it has nobody to exchange with.
/// Shape: [ops].
std::vector<TensorDuty> tensor_duties(const std::vector<TensorOp>& ops,
                                      RankRange own, uint32_t slices);

/// How members' partial sums are added, one addend a member: the upper part of
/// the fixed tree over the slices (PROTOCOL 3).
std::vector<TreeAddend> tensor_addends(uint32_t members, uint32_t slices);

/// Operators [begin, end) of a model, with a stage.
struct OpRun {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t stage = 0;
};

/// What a member of the group holds and does.
struct TensorShare {
  RankRange slices;
  std::vector<uint32_t> variables; ///< that it keeps and updates, ascending
  std::vector<uint32_t> shows;     ///< of those: no other member shows them
  uint64_t flops = 0;              ///< of a sample
  uint32_t forward_sums = 0;       ///< exchanges of a micro-batch
  uint32_t backward_sums = 0;
  uint64_t bytes = 0; ///< of a sample that it sends to each of the others

  friend bool operator==(const TensorShare&, const TensorShare&) = default;
};

/// Shares all operators out: to one group or, with `runs`, to one for each of
/// the stages, whose members follow each other in the result. A variable that
/// operators of several stages use is kept by the first of them (runs are in
/// the model's order); of those that keep one the first shows it, or else who
/// would show none. Errors: a mistake_of_tensor() is a bug here; shares that
/// show nothing are those of stages with fewer variables than members.
std::vector<TensorShare> tensor_shares(const std::vector<TensorOp>& ops,
                                       uint32_t members, uint32_t slices,
                                       const std::vector<OpRun>& runs = {});

} // namespace troupe

#include "actors/replica/sums.hpp"

#include "kernels/base/require.hpp"
#include "kernels/collective/brought.hpp"
#include "kernels/graph/stacked_leaves.hpp"
#include "strategies/tree_addends.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Addends that a replica leaves to whoever sums, where those read memory: a
/// pass over its gradients less for each. One pass over all its leaves saves
/// more.
constexpr uint32_t shared_addends = 4;
constexpr uint32_t max_addends = Brought::max_vectors;

bool any_order(const Job& job) {
  return job.options.reduction == "fast";
}

DivisionOptions division(const Job& job, bool more) {
  return {job.options.virtual_ranks, any_order(job),
          more && !stacks(job.graph) ? shared_addends : 1};
}

std::vector<bool> filled_ranks(const Job& job, uint64_t step) {
  const auto ranks = job.options.virtual_ranks;
  std::vector<bool> filled(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    filled[rank] = job.sampling.rank(step, rank).count > 0;
  return filled;
}

SumProgram program_of(const std::vector<TreeAddend>& addends) {
  SumProgram program;
  for (const auto& addend : addends)
    program.push_back({addend.member, addend.node, addend.merges});
  return program;
}

} // namespace

SumProgram tree_program(const Job& job, uint64_t step,
                        const std::vector<std::vector<RankRange>>& nodes) {
  return program_of(tree_addends(nodes, filled_ranks(job, step)));
}

std::vector<std::vector<uint32_t>>
ranks_with_samples(const Job& job, uint64_t step,
                   const std::vector<std::vector<RankRange>>& nodes) {
  const auto has_samples = filled_ranks(job, step);
  std::vector<std::vector<uint32_t>> out(nodes.size());
  for (size_t member = 0; member < nodes.size(); ++member)
    for (auto node : nodes[member])
      for (auto rank = node.lo; rank < node.hi; ++rank)
        if (has_samples[rank])
          out[member].push_back(rank);
  return out;
}

ReplicaSums::ReplicaSums(const Job& job, uint32_t replicas, bool grows,
                         bool few)
  : job_(job), alone_(replicas == 1), few_(few), max_addends_(1) {
  const auto usual = max_nodes(division(job, !few));
  if (!alone_)
    max_addends_ = std::max(
      usual, std::min({2 * usual, max_addends, job.options.virtual_ranks}));
  first_ = grows ? std::min(max_addends_, shared_addends) : max_addends_;
}

void ReplicaSums::begin_epoch(ReplicaStart start, bool shared) {
  start_ = std::move(start);
  shared_ = shared;
  divide();
}

void ReplicaSums::end_step() {
  forget();
  bool any = false;
  for (auto& member : start_.members)
    any = !std::exchange(member.held, {}).empty() || any;
  if (any)
    divide();
}

void ReplicaSums::forget() {
  held_.clear();
  held_leaves_.clear();
}

bool ReplicaSums::outlive_steps() const {
  return !any_order(job_) && !job_.goes_in_lock_step();
}

void ReplicaSums::keep(const StepGradient& gradient) {
  if (!outlive_steps())
    return;
  const auto& own = nodes_[start_.rank];
  for (auto i = held_.size(); i < own.size(); ++i)
    held_.push_back({own[i], arrays_[i]});
  held_leaves_.insert(held_leaves_.end(), gradient.leaves.begin(),
                      gradient.leaves.end());
  left_.clear();
}

std::vector<RankRange> ReplicaSums::held() const {
  std::vector<RankRange> nodes;
  for (const auto& sum : held_)
    nodes.push_back(sum.node);
  return nodes;
}

/// Says who brings what to the next step, and where this replica's part lies.
void ReplicaSums::divide() {
  auto options = division(job_, shared_ && !few_);
  options.most = max_addends_;
  const auto shares =
    alone_ ? std::vector<MemberNodes>{{{}, {start_.members[0].ranks}}}
           : divide_step(start_.members, options);
  nodes_ = nodes_of(shares);
  const auto& own = shares[start_.rank];
  if (own.held.empty())
    forget();
  kernels::require(own.held == held(), "sums are held that nobody told of");
  left_ = own.left;
  arrays_.clear();
  for (const auto& sum : held_)
    arrays_.push_back(sum.array);
  for (size_t i = 0; i < left_.size(); ++i) {
    uint32_t free = 0;
    while (std::ranges::find(arrays_, free) != arrays_.end())
      ++free;
    arrays_.push_back(free);
  }
}

float* ReplicaSums::in(FlatArrays& arrays, uint32_t array) const {
  return array < first_ ? arrays.at(array) : arrays.more(array - first_);
}

std::vector<float*> ReplicaSums::all_in(FlatArrays& arrays) const {
  std::vector<float*> out;
  for (auto array : arrays_)
    out.push_back(in(arrays, array));
  return out;
}

std::vector<float*> ReplicaSums::left_in(FlatArrays& arrays) const {
  auto out = all_in(arrays);
  out.erase(out.begin(), out.end() - static_cast<ptrdiff_t>(left_.size()));
  return out;
}

std::vector<std::vector<uint32_t>> ReplicaSums::filled(uint64_t step) const {
  return ranks_with_samples(job_, step, nodes_);
}

SumProgram ReplicaSums::program(uint64_t step) const {
  if (!any_order(job_))
    return tree_program(job_, step, nodes_);
  // A tree over the replicas, each with all it has.
  const auto filled = filled_ranks(job_, step);
  std::vector<std::vector<RankRange>> members;
  std::vector<bool> brings;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const auto own = nodes_[i].front();
    members.push_back({{i, i + 1}});
    brings.push_back(
      std::find(filled.begin() + own.lo, filled.begin() + own.hi, true)
      != filled.begin() + own.hi);
  }
  return program_of(tree_addends(members, brings));
}

} // namespace troupe

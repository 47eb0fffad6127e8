#include "actors/job/slice_update.hpp"

#include "actors/job/update_watch.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/optimizer/norms.hpp"

#include <algorithm>

namespace troupe {

namespace {

void for_slices(const Job& job, Executor* executor,
                const std::function<void(const Slice&)>& body) {
  const auto& slices = job.plan.slices;
  if (executor != nullptr)
    executor->parallel_for(slices.size(),
                           [&](size_t i, uint32_t) { body(slices[i]); });
  else
    std::for_each(slices.begin(), slices.end(), body);
}

size_t blocks_of(const Slice& slice) {
  return slice.sparse() ? 1 : norm_blocks(slice.count);
}

} // namespace

UpdateArgs slice_update(const Job& job, const Slice& slice, UpdateMoment moment,
                        const StepScalars& scalars) {
  UpdateArgs args;
  args.samples = static_cast<float>(moment.samples);
  args.step = moment.count + 1;
  args.learning_rate = static_cast<float>(learning_rate(job.lr, moment.step))
                       * scalars.rate_scale;
  args.count = slice.count;
  args.gradient_scale = scalars.gradient_scale;
  if (!scalars.trust_ratios.empty())
    args.trust_ratio = scalars.trust_ratios[slice.variable];
  set_parameter(args, job.graph.parameters[slice.variable]);
  args.lazy = std::ranges::binary_search(job.lazy, slice.variable);
  return args;
}

void update_slice(const Job& job, const Slice& slice, uint64_t begin,
                  uint64_t step, const UpdateArgs& args) {
  update(job.options.rule, args);
  updated_slice(job, slice, begin, step, args);
}

void updated_slice(const Job& job, const Slice& slice, uint64_t begin,
                   uint64_t step, const UpdateArgs& args) {
  if (job.updates && job.updates->is_due(step))
    job.updates->saw(slice, begin, step, args);
}

std::vector<ScalarRoundKind> rounds_of(const JobOptions& options) {
  std::vector<ScalarRoundKind> rounds;
  if (options.clip_norm > 0)
    rounds.push_back(ScalarRoundKind::gradient_norm);
  if (options.rule.kind == OptimizerKind::lamb)
    rounds.push_back(ScalarRoundKind::trust_ratios);
  return rounds;
}

size_t sums_of(const Job& job, const Slice& slice, ScalarRoundKind round) {
  if (job.graph.parameters[slice.variable].role != ParameterRole::trained)
    return 0;
  const auto kinds = round == ScalarRoundKind::trust_ratios ? 2 : 1;
  return kinds * blocks_of(slice);
}

std::vector<double> slice_sums(const Job& job, const Slice& slice,
                               ScalarRoundKind round, const UpdateArgs& args) {
  const auto count = sums_of(job, slice, round);
  if (count == 0)
    return {};
  const auto blocks = norm_blocks(args.count);
  const bool two = round == ScalarRoundKind::trust_ratios;
  std::vector<double> sums(two ? 2 * blocks : blocks);
  if (blocks > 0 && two)
    lamb_square_sum_blocks(job.options.rule, args, sums.data(),
                           sums.data() + blocks);
  else if (blocks > 0)
    square_sum_blocks(args.gradient_sum, args.count, sums.data());
  if (!slice.sparse())
    return sums;
  const std::span all{sums};
  std::vector<double> whole{tree_sum(all.first(blocks))};
  if (two)
    whole.push_back(tree_sum(all.last(blocks)));
  return whole;
}

RoundSums::RoundSums(const Job& job, ScalarRoundKind round)
  : job_(job), round_(round) {
  for (const auto& variable : job.plan.variables)
    blocks_.emplace_back(variable.partitions > 0
                           ? variable.partitions
                           : norm_blocks(variable.size()));
  if (round == ScalarRoundKind::trust_ratios)
    directions_ = blocks_;
}

void RoundSums::put(const Slice& slice, const std::vector<double>& sums) {
  if (sums.empty())
    return;
  const auto first = slice.sparse() ? slice.partition
                                    : first_norm_block(slice.offset);
  const auto blocks = blocks_of(slice);
  std::copy_n(sums.begin(), blocks, blocks_[slice.variable].begin() + first);
  if (!directions_.empty())
    std::copy_n(sums.begin() + blocks, blocks,
                directions_[slice.variable].begin() + first);
}

std::vector<float> RoundSums::scalars(uint32_t samples) const {
  std::vector<float> published;
  if (round_ == ScalarRoundKind::gradient_norm) {
    std::vector<double> squares;
    for (auto variable : order_by_name(job_.graph))
      squares.push_back(tree_sum(blocks_[variable]));
    const auto norm = mean_norm(tree_sum(squares), samples);
    published.push_back(clip_scale(norm, job_.options.clip_norm));
    return published;
  }
  // A layer in slices has one ratio for all of its pieces.
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    std::vector<double> values;
    std::vector<double> directions;
    for (auto piece : pieces_of(job_.graph, whole_of(job_.graph, i))) {
      values.push_back(tree_sum(blocks_[piece]));
      directions.push_back(tree_sum(directions_[piece]));
    }
    published.push_back(trust_ratio(tree_sum(values), tree_sum(directions)));
  }
  return published;
}

bool take_scalars(const Job& job, ScalarRoundKind round,
                  const std::vector<float>& published, StepScalars& into) {
  if (round == ScalarRoundKind::gradient_norm) {
    if (published.size() != 1)
      return false;
    into.gradient_scale = published.front();
    return true;
  }
  if (published.size() != job.graph.parameters.size())
    return false;
  into.trust_ratios = published;
  return true;
}

StepScalars
whole_scalars(const Job& job, Executor* executor, UpdateMoment moment,
              const std::function<void(const Slice&, UpdateArgs&)>& args_of) {
  StepScalars scalars;
  for (auto round : rounds_of(job.options)) {
    std::vector<std::vector<double>> sums(job.plan.slices.size());
    for_slices(job, executor, [&](const Slice& slice) {
      auto args = slice_update(job, slice, moment, scalars);
      args_of(slice, args);
      sums[slice.id] = slice_sums(job, slice, round, args);
    });
    RoundSums all{job, round};
    for (const auto& slice : job.plan.slices)
      all.put(slice, sums[slice.id]);
    take_scalars(job, round, all.scalars(moment.samples), scalars);
  }
  return scalars;
}

void whole_update(
  const Job& job, Executor* executor, UpdateMoment moment,
  const std::function<void(const Slice&, UpdateArgs&)>& args_of) {
  const auto scalars = whole_scalars(job, executor, moment, args_of);
  for_slices(job, executor, [&](const Slice& slice) {
    auto args = slice_update(job, slice, moment, scalars);
    args_of(slice, args);
    update(job.options.rule, args);
  });
}

} // namespace troupe

#include "actors/replica/bank_update.hpp"

#include "actors/job/update_watch.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

/// Points an update of elements from `at` on at the variables.
void point(const VariableBanks& banks, uint64_t step, uint64_t at,
           const float* sum, UpdateArgs& args) {
  args.gradient_sum = sum;
  args.in = banks.parameters(step) + at;
  args.out = banks.parameters(step + 1) + at;
  if (banks.slots() == 0)
    return;
  args.state_in = banks.state(step) + at;
  args.state_out = banks.state(step + 1) + at;
  args.state_stride = banks.stride();
}

} // namespace

BankUpdate::BankUpdate(const Job& job, Executor& executor)
  : job_(job),
    executor_(executor),
    by_place_(job.plan.slices.size()),
    told_(job.plan.slices.size(), true) {
  std::iota(by_place_.begin(), by_place_.end(), 0);
  std::sort(by_place_.begin(), by_place_.end(), [&](uint32_t a, uint32_t b) {
    return job_.flat_offset(job_.plan.slices[a])
           < job_.flat_offset(job_.plan.slices[b]);
  });
}

void BankUpdate::tell_of(const std::vector<uint32_t>& slices, bool run_all) {
  runs_all_ = run_all;
  told_.assign(told_.size(), false);
  for (auto id : slices)
    told_[id] = true;
}

void BankUpdate::run(const VariableBanks& banks, UpdateMoment moment,
                     const StepScalars& scalars, uint64_t begin, uint64_t end,
                     const float* sum) const {
  const auto slice_of = [&](uint32_t place) -> const Slice& {
    return job_.plan.slices[by_place_[place]];
  };
  auto place = static_cast<uint32_t>(
    std::partition_point(by_place_.begin(), by_place_.end(),
                         [&](uint32_t id) {
                           const auto& slice = job_.plan.slices[id];
                           return job_.flat_offset(slice) + slice.count
                                  <= begin;
                         })
    - by_place_.begin());
  for (; place < by_place_.size(); ++place) {
    const auto& slice = slice_of(place);
    const auto first = std::max(begin, job_.flat_offset(slice));
    const auto last = std::min(end, job_.flat_offset(slice) + slice.count);
    if (first >= end)
      return;
    auto args = slice_update(job_, slice, moment, scalars);
    args.count = last - first;
    point(banks, moment.step, first, sum + (first - begin), args);
    update(job_.options.rule, args);
    if (!runs_all_ || told_[slice.id])
      updated_slice(job_, slice, first - job_.flat_offset(slice), moment.step,
                    args);
  }
}

void BankUpdate::whole(const VariableBanks& banks, UpdateMoment moment,
                       const float* sum) const {
  whole_update(job_, &executor_, moment,
               [&](const Slice& slice, UpdateArgs& args) {
                 const auto at = job_.flat_offset(slice);
                 point(banks, moment.step, at, sum + at, args);
               });
  if (!job_.updates || !job_.updates->is_due(moment.step))
    return;
  executor_.parallel_for(job_.plan.slices.size(), [&](size_t i, uint32_t) {
    if (!told_[i])
      return;
    const auto& slice = job_.plan.slices[i];
    const auto at = job_.flat_offset(slice);
    auto args = slice_update(job_, slice, moment);
    point(banks, moment.step, at, sum + at, args);
    job_.updates->saw(slice, 0, moment.step, args);
  });
}

StepScalars BankUpdate::scalars(const VariableBanks& banks, UpdateMoment moment,
                                const float* sum) const {
  return whole_scalars(job_, &executor_, moment,
                       [&](const Slice& slice, UpdateArgs& args) {
                         const auto at = job_.flat_offset(slice);
                         point(banks, moment.step, at, sum + at, args);
                       });
}

} // namespace troupe

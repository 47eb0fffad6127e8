#include "actors/job/update_watch.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace troupe {
namespace {

uint64_t end_of(const Spreads& run) {
  return run.begin + run.elements;
}

/// Whether a run has any of its elements.
bool is_known(const std::map<uint64_t, Spreads>& runs, const Spreads& part) {
  const auto next = runs.lower_bound(part.begin);
  return (next != runs.end() && next->first < end_of(part))
         || (next != runs.begin()
             && end_of(std::prev(next)->second) > part.begin);
}

/// Adds a run that begins where the other one ends.
void join(Spreads& into, const Spreads& more) {
  into.begin = std::min(into.begin, more.begin);
  into.elements += more.elements;
  merge(into.values, more.values);
  merge(into.gradient, more.gradient);
}

} // namespace

void UpdateWatch::tell(Tell tell) {
  const std::lock_guard guard{lock_};
  tell_ = std::move(tell);
}

void UpdateWatch::saw(const Slice& slice, uint64_t begin, uint64_t step,
                      const UpdateArgs& args) {
  Tell tell;
  {
    const std::lock_guard guard{lock_};
    tell = tell_;
  }
  if (!tell)
    return;
  Spreads part;
  part.step = step + 1;
  part.variable = slice.variable;
  part.begin = slice.offset + begin;
  part.elements = args.count;
  part.values = spread_of(args.out, args.count);
  part.gradient = spread_of(args.gradient_sum, args.count, 1 / args.samples);
  if (args.count == slice.count || add(slice, part))
    tell(part);
}

/// Returns whether the slice is whole: then it is in `part`.
bool UpdateWatch::add(const Slice& slice, Spreads& part) {
  const std::lock_guard guard{lock_};
  auto& [step, runs] = open_[slice.id];
  if (step != part.step || is_known(runs, part))
    runs.clear();
  step = part.step;
  auto next = runs.lower_bound(part.begin);
  if (next != runs.end() && next->first == end_of(part)) {
    join(part, next->second);
    next = runs.erase(next);
  }
  if (next != runs.begin() && end_of(std::prev(next)->second) == part.begin) {
    join(part, std::prev(next)->second);
    runs.erase(std::prev(next));
  }
  if (part.elements == slice.count) {
    open_.erase(slice.id);
    return true;
  }
  runs.emplace(part.begin, std::move(part));
  return false;
}

void UpdateWatch::end(uint64_t step) {
  std::vector<Spreads> told;
  Tell tell;
  {
    const std::lock_guard guard{lock_};
    for (auto& [slice, runs] : open_)
      if (runs.step == step + 1)
        for (auto& [begin, run] : std::exchange(runs.by_begin, {}))
          told.push_back(std::move(run));
    tell = tell_;
  }
  for (const auto& run : told)
    tell(run);
}

} // namespace troupe

#include "strategies/stage_cuts.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

constexpr auto never = ~uint64_t{0};

/// Dynamic programming over what is left: value[k][i] is the best that stages k
/// and on can make of operators i and on.
class Table {
public:
  Table(uint32_t stages, uint32_t ops)
    : ops_(ops),
      values_(stages + 1, std::vector<uint64_t>(ops + 1, never)),
      ends_(stages, std::vector<uint32_t>(ops + 1, 0)) {
    values_[stages][ops] = 0;
  }

  /// `of_stage(k, begin, end)` is never where the stage may not be; `join` puts
  /// a stage's value and that of the rest together; `fits` is asked last, of
  /// stages that would be better than others.
  template <class OfStage, class Join, class Fits>
  void fill(const OfStage& of_stage, const Join& join, const Fits& fits) {
    for (auto k = static_cast<uint32_t>(ends_.size()); k-- > 0;)
      for (uint32_t begin = 0; begin < ops_; ++begin)
        for (auto end = begin + 1; end <= ops_; ++end) {
          const auto rest = values_[k + 1][end];
          if (rest == never)
            continue;
          const auto own = of_stage(k, begin, end);
          if (own == never || join(own, rest) >= values_[k][begin]
              || !fits(k, begin, end))
            continue;
          values_[k][begin] = join(own, rest);
          ends_[k][begin] = end;
        }
  }

  uint64_t best() const { return values_[0][0]; }
  std::vector<uint32_t> begins() const {
    std::vector<uint32_t> out;
    uint32_t at = 0;
    for (const auto& ends : ends_) {
      out.push_back(at);
      at = ends[at];
    }
    return out;
  }

private:
  uint32_t ops_;
  std::vector<std::vector<uint64_t>> values_;
  std::vector<std::vector<uint32_t>> ends_;
};

uint32_t ops_of(const CutProblem& problem) {
  strategies::require(problem.cuts.size() == problem.ops.size() + 1,
                      "cuts of other operators");
  strategies::require(!problem.in_flight.empty(), "no stage");
  return static_cast<uint32_t>(problem.ops.size());
}

/// Sums of a field up to each operator.
std::vector<uint64_t> sums_of(const std::vector<OpCost>& ops,
                              uint64_t OpCost::*field) {
  std::vector<uint64_t> sums{0};
  for (const auto& op : ops)
    sums.push_back(sums.back() + op.*field);
  return sums;
}

/// The same as stage_time() and stage_memory(), without adding each time.
class Sums {
public:
  explicit Sums(const CutProblem& problem)
    : problem_(problem),
      time_(sums_of(problem.ops, &OpCost::time)),
      resident_(sums_of(problem.ops, &OpCost::resident)),
      stashed_(sums_of(problem.ops, &OpCost::stashed)) {}

  bool fits(uint32_t stage, uint32_t begin, uint32_t end) const {
    return problem_.memory_limit == never
           || memory(stage, begin, end) <= problem_.memory_limit;
  }
  bool allowed(uint32_t begin, uint32_t end) const {
    const auto last = static_cast<uint32_t>(problem_.ops.size());
    return (begin == 0 || problem_.cuts[begin].allowed)
           && (end == last || problem_.cuts[end].allowed);
  }
  uint64_t time(uint32_t begin, uint32_t end) const {
    return time_[end] - time_[begin] + problem_.cuts[begin].time
           + problem_.cuts[end].time;
  }
  uint64_t memory(uint32_t stage, uint32_t begin, uint32_t end) const {
    if (problem_.memory)
      return problem_.memory(stage, begin, end);
    return resident_[end] - resident_[begin]
           + problem_.in_flight[stage] * (stashed_[end] - stashed_[begin]);
  }

private:
  const CutProblem& problem_;
  std::vector<uint64_t> time_;
  std::vector<uint64_t> resident_;
  std::vector<uint64_t> stashed_;
};

uint64_t larger(uint64_t a, uint64_t b) {
  return std::max(a, b);
}

} // namespace

uint64_t stage_time(const CutProblem& problem, uint32_t begin, uint32_t end) {
  return Sums{problem}.time(begin, end);
}

uint64_t stage_memory(const CutProblem& problem, uint32_t stage, uint32_t begin,
                      uint32_t end) {
  return Sums{problem}.memory(stage, begin, end);
}

std::optional<StageCuts> cut_stages(const CutProblem& problem) {
  const auto ops = ops_of(problem);
  const auto stages = static_cast<uint32_t>(problem.in_flight.size());
  const Sums sums{problem};
  const auto fits = [&](uint32_t k, uint32_t begin, uint32_t end) {
    return sums.fits(k, begin, end);
  };
  Table fastest{stages, ops};
  fastest.fill(
    [&](uint32_t, uint32_t begin, uint32_t end) {
      return sums.allowed(begin, end) ? sums.time(begin, end) : never;
    },
    larger, fits);
  if (fastest.best() == never)
    return std::nullopt;
  // That of the fewest bytes is not made of parts with the fewest bytes among
  // the fastest, but of such parts among those that are fast enough.
  Table fewest{stages, ops};
  fewest.fill(
    [&](uint32_t, uint32_t begin, uint32_t end) {
      const bool fast = sums.allowed(begin, end)
                        && sums.time(begin, end) <= fastest.best();
      return fast ? problem.cuts[end].bytes : never;
    },
    [](uint64_t own, uint64_t rest) { return own + rest; }, fits);
  return StageCuts{fewest.begins(), fastest.best(), fewest.best()};
}

std::optional<uint64_t> min_memory(const CutProblem& problem) {
  const auto ops = ops_of(problem);
  const Sums sums{problem};
  Table least{static_cast<uint32_t>(problem.in_flight.size()), ops};
  least.fill(
    [&](uint32_t k, uint32_t begin, uint32_t end) {
      return sums.allowed(begin, end) ? sums.memory(k, begin, end) : never;
    },
    larger, [](uint32_t, uint32_t, uint32_t) { return true; });
  return least.best() == never ? std::nullopt
                               : std::optional<uint64_t>{least.best()};
}

} // namespace troupe

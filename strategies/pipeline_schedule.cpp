#include "strategies/pipeline_schedule.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

namespace troupe {
namespace {

constexpr std::array<std::pair<PipelineSchedule, std::string_view>, 4>
  schedule_names{{
    {PipelineSchedule::gpipe, "gpipe"},
    {PipelineSchedule::one_f_one_b, "1f1b"},
    {PipelineSchedule::interleaved, "interleaved"},
    {PipelineSchedule::zero_bubble, "zero_bubble"},
  }};

/// Passes of all chunks in one direction.
uint32_t passes_of(const PipelineShape& x) {
  return x.micro_batches * x.chunks;
}

/// Micro-batches go in groups of as many as there are stages, each group
/// through all chunks.
StageAction nth(const PipelineShape& x, uint32_t n, StagePass pass) {
  const auto group = x.stages * x.chunks;
  const auto chunk = n % group / x.stages;
  return {pass, n / group * x.stages + n % x.stages,
          pass == StagePass::forward ? chunk : x.chunks - 1 - chunk};
}

/// Forward passes before the first backward one that follows them by turns.
uint32_t warmup(const PipelineShape& x, uint32_t stage) {
  const auto behind = x.stages - 1 - stage;
  switch (x.schedule) {
    case PipelineSchedule::gpipe:
      return passes_of(x);
    case PipelineSchedule::interleaved:
      return std::min(passes_of(x), 2 * behind + (x.chunks - 1) * x.stages);
    default:
      return std::min(passes_of(x), behind);
  }
}

/// Appends backward pass n; in halves, the weights of the pass that is `stage`
/// before it, so that as many activations are held as the first stage has.
void append_backward(const PipelineShape& x, uint32_t stage, uint32_t n,
                     std::vector<StageAction>& out) {
  if (x.schedule != PipelineSchedule::zero_bubble) {
    out.push_back(x.schedule == PipelineSchedule::interleaved
                    ? nth(x, n, StagePass::backward)
                    : StageAction{StagePass::backward, n, 0});
    return;
  }
  out.push_back({StagePass::backward_inputs, n, 0});
  if (n >= stage)
    out.push_back({StagePass::backward_weights, n - stage, 0});
}

/// Plays actions of all stages against each other.
class Play {
public:
  Play(const std::vector<std::vector<StageAction>>& actions,
       const std::vector<PartCost>& costs, bool recompute)
    : actions_(actions),
      costs_(costs),
      recompute_(recompute),
      stages_(static_cast<uint32_t>(actions.size())),
      next_(stages_),
      clock_(stages_),
      held_(stages_),
      full_(stages_) {
    times_.busy.resize(stages_);
    times_.stash_peak.resize(stages_);
    times_.activation_peak.resize(stages_);
    uint32_t most = 0;
    for (const auto& own : actions)
      for (const auto& action : own)
        most = std::max(most, action.micro_batch + 1);
    forward_.resize(most, std::vector<uint64_t>(costs.size(), never));
    backward_ = forward_;
  }

  std::optional<PipelineTimes> times() {
    while (step()) {
      // Each round takes every stage as far as it gets.
    }
    for (uint32_t stage = 0; stage < stages_; ++stage)
      if (next_[stage] < actions_[stage].size())
        return std::nullopt;
    times_.end = *std::ranges::max_element(clock_);
    const auto busy = std::accumulate(times_.busy.begin(), times_.busy.end(),
                                      uint64_t{0});
    if (times_.end > 0)
      times_.idle_share = 1
                          - static_cast<double>(busy)
                              / (static_cast<double>(times_.end) * stages_);
    return times_;
  }

private:
  static constexpr auto never = ~uint64_t{0};

  bool step() {
    bool moved = false;
    for (uint32_t stage = 0; stage < stages_; ++stage)
      while (next_[stage] < actions_[stage].size()
             && take(stage, actions_[stage][next_[stage]])) {
        ++next_[stage];
        moved = true;
      }
    return moved;
  }

  /// When what the pass reads is there.
  uint64_t begins(const StageAction& action, uint32_t part) const {
    const auto& forward = forward_[action.micro_batch];
    const auto& backward = backward_[action.micro_batch];
    switch (action.pass) {
      case StagePass::forward:
        return part == 0 ? 0 : forward[part - 1];
      case StagePass::backward_weights:
        return backward[part];
      default:
        return forward[part] == never || part + 1 == costs_.size()
                 ? forward[part]
                 : std::max(forward[part], backward[part + 1]);
    }
  }

  bool take(uint32_t stage, const StageAction& action) {
    const auto part = action.chunk * stages_ + stage;
    const auto begin = begins(action, part);
    if (begin == never)
      return false;
    const auto& cost = costs_[part];
    const bool again = recompute_
                       && (action.pass == StagePass::backward
                           || action.pass == StagePass::backward_inputs);
    uint64_t took = 0;
    if (action.pass == StagePass::forward)
      took += cost.forward;
    if (again)
      took += cost.again.value_or(cost.forward);
    if (action.pass == StagePass::backward
        || action.pass == StagePass::backward_inputs)
      took += cost.backward_inputs;
    if (action.pass == StagePass::backward
        || action.pass == StagePass::backward_weights)
      took += cost.backward_weights;
    clock_[stage] = std::max(clock_[stage], begin) + took;
    times_.busy[stage] += took;
    count(stage, action);
    if (action.pass == StagePass::forward)
      forward_[action.micro_batch][part] = clock_[stage];
    else if (action.pass != StagePass::backward_weights)
      backward_[action.micro_batch][part] = clock_[stage];
    return true;
  }

  void count(uint32_t stage, const StageAction& action) {
    if (action.pass == StagePass::forward)
      times_.stash_peak[stage] = std::max(times_.stash_peak[stage],
                                          ++held_[stage]);
    else if (action.pass != StagePass::backward_inputs)
      --held_[stage];
    // Those of the pass itself are there until it ends.
    auto& full = full_[stage];
    const bool begins = action.pass == StagePass::forward
                        || (recompute_
                            && action.pass != StagePass::backward_weights);
    full += begins ? 1 : 0;
    times_.activation_peak[stage] = std::max(times_.activation_peak[stage],
                                             full);
    const bool ends = action.pass == StagePass::forward
                        ? recompute_
                        : action.pass != StagePass::backward_inputs;
    full -= ends ? 1 : 0;
  }

  const std::vector<std::vector<StageAction>>& actions_;
  const std::vector<PartCost>& costs_;
  bool recompute_;
  uint32_t stages_;
  std::vector<size_t> next_;
  std::vector<uint64_t> clock_;
  std::vector<uint32_t> held_;
  std::vector<uint32_t> full_; ///< with activations
  /// When each pass ended, by micro-batch and part.
  std::vector<std::vector<uint64_t>> forward_;
  std::vector<std::vector<uint64_t>> backward_;
  PipelineTimes times_;
};

} // namespace

std::string to_string(PipelineSchedule schedule) {
  for (auto [value, name] : schedule_names)
    if (value == schedule)
      return std::string{name};
  return "unknown";
}

bool parse(const std::string& name, PipelineSchedule& schedule) {
  for (auto [value, known] : schedule_names) {
    if (known != name)
      continue;
    schedule = value;
    return true;
  }
  return false;
}

std::optional<std::string> mistake_of(const PipelineShape& x) {
  if (x.stages == 0 || x.micro_batches == 0 || x.chunks == 0)
    return std::string{"a pipeline needs a stage, a micro-batch and a chunk"};
  if (x.schedule != PipelineSchedule::interleaved && x.chunks > 1)
    return "--schedule " + to_string(x.schedule)
           + " has one chunk for each stage, not " + std::to_string(x.chunks)
           + ": use --schedule interleaved";
  if (x.schedule == PipelineSchedule::interleaved && x.stages == 1)
    return std::string{"--schedule interleaved goes round several stages: use "
                       "--stages 2 or more, or --schedule 1f1b"};
  if (x.schedule == PipelineSchedule::interleaved
      && x.micro_batches % x.stages != 0)
    return "--schedule interleaved takes micro-batches in groups of "
           + std::to_string(x.stages) + ", one for each stage, and "
           + std::to_string(x.micro_batches)
           + " virtual ranks are no multiple of that: use --virtual-ranks "
           + std::to_string((x.micro_batches / x.stages + 1) * x.stages);
  return std::nullopt;
}

std::vector<StageAction> stage_actions(const PipelineShape& shape,
                                       uint32_t stage) {
  strategies::require(!mistake_of(shape), "a pipeline that cannot be");
  strategies::require(stage < shape.stages, "a stage outside the pipeline");
  const auto passes = passes_of(shape);
  const auto first = warmup(shape, stage);
  std::vector<StageAction> out;
  const auto forward = [&](uint32_t n) {
    out.push_back(shape.schedule == PipelineSchedule::interleaved
                    ? nth(shape, n, StagePass::forward)
                    : StageAction{StagePass::forward, n, 0});
  };
  for (uint32_t n = 0; n < first; ++n)
    forward(n);
  for (uint32_t n = 0; n < passes; ++n) {
    if (first + n < passes)
      forward(first + n);
    append_backward(shape, stage, n, out);
  }
  if (shape.schedule == PipelineSchedule::zero_bubble)
    for (auto n = passes - std::min(stage, passes); n < passes; ++n)
      out.push_back({StagePass::backward_weights, n, 0});
  return out;
}

std::vector<StageAction> step_actions(PipelineShape shape, uint32_t stage,
                                      uint32_t micro_batches) {
  if (shape.schedule != PipelineSchedule::interleaved) {
    shape.micro_batches = micro_batches;
    return stage_actions(shape, stage);
  }
  auto actions = stage_actions(shape, stage);
  std::erase_if(actions, [micro_batches](const StageAction& action) {
    return action.micro_batch >= micro_batches;
  });
  return actions;
}

std::vector<StageAction> lock_step_actions(uint32_t micro_batches,
                                           uint32_t forward_runs,
                                           uint32_t backward_runs) {
  std::vector<StageAction> out;
  const auto add = [&](StagePass pass, uint32_t runs) {
    for (uint32_t run = 0; run < runs; ++run)
      for (uint32_t n = 0; n < micro_batches; ++n)
        out.push_back({pass, n, 0, run});
  };
  add(StagePass::forward, forward_runs);
  add(StagePass::backward, backward_runs);
  return out;
}

uint32_t chunk_peak(const PipelineShape& shape, uint32_t stage,
                    uint32_t chunk) {
  if (shape.chunks == 1)
    return stash_peak(shape, stage);
  uint32_t held = 0;
  uint32_t peak = 0;
  for (const auto& action : stage_actions(shape, stage)) {
    if (action.chunk != chunk)
      continue;
    held += action.pass == StagePass::forward ? 1 : 0;
    peak = std::max(peak, held);
    held -= action.pass == StagePass::backward ? 1 : 0;
  }
  return peak;
}

uint32_t stash_peak(const PipelineShape& shape, uint32_t stage) {
  const auto one = shape.schedule == PipelineSchedule::gpipe ? 0u : 1u;
  // Weights that are put off by `stage` passes keep as many activations more.
  const auto put_off = shape.schedule == PipelineSchedule::zero_bubble ? stage
                                                                       : 0u;
  return std::min(passes_of(shape), warmup(shape, stage) + one + put_off);
}

uint32_t activation_peak(const PipelineShape& shape, uint32_t stage) {
  if (!shape.recompute)
    return stash_peak(shape, stage);
  return shape.schedule == PipelineSchedule::zero_bubble
           ? std::min(passes_of(shape), stage + 1)
           : 1;
}

std::optional<PipelineTimes>
play_pipeline(const std::vector<std::vector<StageAction>>& actions,
              const std::vector<PartCost>& costs, bool recompute) {
  strategies::require(!actions.empty() && costs.size() % actions.size() == 0,
                      "costs of other stages");
  return Play{actions, costs, recompute}.times();
}

PipelineTimes play_pipeline(const PipelineShape& shape,
                            const std::vector<PartCost>& costs) {
  std::vector<std::vector<StageAction>> actions;
  for (uint32_t stage = 0; stage < shape.stages; ++stage)
    actions.push_back(stage_actions(shape, stage));
  const auto times = play_pipeline(actions, costs, shape.recompute);
  strategies::require(times.has_value(), "stages that wait for each other");
  return *times;
}

} // namespace troupe

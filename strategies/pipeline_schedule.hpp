#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// In which order the stages of a pipeline compute a step's micro-batches.
enum class PipelineSchedule : uint8_t {
  gpipe,       ///< all forward, then all backward
  one_f_one_b, ///< one forward, one backward by turns once the pipe is full
  interleaved, ///< the same, where a stage holds several chunks of the layers
  zero_bubble, ///< 1F1B with weights' gradients put off to where it would wait
};
std::string to_string(PipelineSchedule schedule);
/// Names as on the command line: gpipe, 1f1b, interleaved, zero_bubble.
/// Errors: returns false for an unknown name.
bool parse(const std::string& name, PipelineSchedule& schedule);

/// What a stage does with a micro-batch. A schedule has `backward`, or both of
/// its halves, each of its own.
enum class StagePass : uint8_t {
  forward,
  backward,         ///< for inputs and weights at once
  backward_inputs,  ///< what the stage before waits for
  backward_weights, ///< after it, at any time
};

/// One pass of one stage. Chunk c of stage k, of p stages, is part c p + k of
/// the layers.
struct StageAction {
  StagePass pass = StagePass::forward;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;
  /// Of a pass that comes in several, with sums between them: over the stage's
  /// tensor members, or over all micro-batches (lock_step_actions()).
  uint32_t run = 0;

  friend bool operator==(const StageAction&, const StageAction&) = default;
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1; ///< of each stage; above 1: interleaved alone
  /// A stage keeps what came of a micro-batch, and no activations: its backward
  /// pass, or the half for inputs, begins with another forward pass.
  /// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost",
  /// 2016.
  bool recompute = false;
};

/// Why there is no such schedule, for people; nothing where there is one.
std::optional<std::string> mistake_of(const PipelineShape& shape);

/// What `stage` does in a step, one pass after the other; a pass waits until
/// what it needs of a neighbour has come. No two stages wait for each other.
/// Sources: Huang et al., "GPipe", 2019; Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters", 2021, section 2.2;
/// Qi et al., "Zero Bubble Pipeline Parallelism", 2024, section 2.3 (ZB-H1).
/// Errors: a shape with a mistake is a bug and asserts.
std::vector<StageAction> stage_actions(const PipelineShape& shape,
                                       uint32_t stage);

/// The same of a step that has fewer micro-batches than the shape, down to one:
/// of an interleaved schedule what is left of its order.
std::vector<StageAction> step_actions(PipelineShape shape, uint32_t stage,
                                      uint32_t micro_batches);

/// Of gpipe, where the next run of a pass needs the last one of all
/// micro-batches, which have so many forward and backward.
std::vector<StageAction> lock_step_actions(uint32_t micro_batches,
                                           uint32_t forward_runs,
                                           uint32_t backward_runs);

/// How many micro-batches a stage holds the activations of at once, at most; of
/// several chunks each counts. 1F1B: min(m, p - k); GPipe: m.
uint32_t stash_peak(const PipelineShape& shape, uint32_t stage);
/// Of one chunk alone; of steps with fewer micro-batches no more.
uint32_t chunk_peak(const PipelineShape& shape, uint32_t stage, uint32_t chunk);
/// The same of activations in full: where they are computed again, of one, or
/// of those whose weights' gradients are put off.
uint32_t activation_peak(const PipelineShape& shape, uint32_t stage);

/// What a pass of each part of the layers takes, in any unit; backward is the
/// sum of its halves.
struct PartCost {
  uint64_t forward = 1;
  uint64_t backward_inputs = 1;
  uint64_t backward_weights = 1;
  /// Of a shape that computes activations again: what that takes; nothing: as
  /// long as all of the forward pass.
  std::optional<uint64_t> again = std::nullopt;
};

/// When everything happens if every pass takes what it costs and what crosses
/// between stages takes no time.
struct PipelineTimes {
  uint64_t end = 0;                 ///< of the step
  std::vector<uint64_t> busy;       ///< by stage
  double idle_share = 0;            ///< of all stages' time: the bubble
  std::vector<uint32_t> stash_peak; ///< by stage, counted
  std::vector<uint32_t> activation_peak;
};

/// Plays a step. Shapes: actions [stages], costs [stages x chunks] by part of
/// the layers.
/// Errors: nothing where stages wait for each other for ever.
std::optional<PipelineTimes>
play_pipeline(const std::vector<std::vector<StageAction>>& actions,
              const std::vector<PartCost>& costs, bool recompute = false);

/// The same of a shape's own actions. Errors: as of stage_actions().
PipelineTimes play_pipeline(const PipelineShape& shape,
                            const std::vector<PartCost>& costs);

} // namespace troupe

#pragma once

#include "strategies/step_nodes.hpp"

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace troupe {

/// What a worker does next that has a share of the parameters only, or of their
/// gradients: it takes one leaf after the other through the parts of the model,
/// forward and backward, and has parameters for the next few passes alone
/// (PROTOCOL 8, 9):
///
///         begin_epoch              gathered: those of the next pass
///   sealed ----------> gathering <---------------------------------> passing
///      ^                   ^                                            |
///      |                   |   all leaves are back: the next version    |
///      |                   +--------------------------------------------+
///      |                   |
///      |                   +--> idle: at the end, or paused
///      +---- seal (from anywhere)
///
/// Gradients leave with each pass backward, and nothing of a leaf is kept: one
/// that an epoch breaks off is computed anew where owners lack some of it. The
/// first push of a step comes after a forward pass over all parts, which have
/// its version by then: so it proves that the step before is committed.
/// Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
/// Trillion Parameter Models", SC 2020, for gathering and dropping; Zhao et
/// al., "PyTorch FSDP", VLDB 2023, for prefetching a bounded number of parts.
class ShardedCourse {
public:
  struct Options {
    uint32_t parts = 1;  ///< of the model, in order
    uint32_t window = 1; ///< passes for which parameters are gathered ahead,
                         ///< the one that runs included; at least 1
    bool keeps = false;  ///< parts stay until their step is over
  };

  /// The owners are to be asked for the parameters of a part.
  struct Gather {
    uint32_t part = 0;
    uint64_t version = 0;
  };
  /// Nobody needs them soon: their memory is free.
  struct Drop {
    uint32_t part = 0;
  };
  /// The executor takes a leaf through a part.
  struct Pass {
    uint64_t step = 0;
    uint32_t rank = 0;
    uint32_t part = 0;
    bool forward = true;
    uint64_t turn = 0;
  };
  /// All leaves of the step before are back.
  struct NextStep {};
  using Action = std::variant<Gather, Drop, Pass, NextStep>;
  using Actions = std::vector<Action>;

  /// `nodes` outlives it; nothing of them is computed or held.
  ShardedCourse(StepNodes& nodes, Options options);

  // --- epochs ---------------------------------------------------------------
  /// All that was gathered, or is being computed, is given up.
  void seal();
  /// The epoch is active, and `nodes` know what it leaves to do of step
  /// `version`; the run ends at `end`.
  Actions begin_epoch(uint64_t version, uint64_t end);

  // --- a step ---------------------------------------------------------------
  /// Whether the parameters of a part are waited for, of version().
  bool awaits(uint32_t part) const { return parts_[part] == Here::asked; }
  uint64_t version() const { return nodes_.step(); }
  Actions gathered(uint32_t part);
  /// Whether that pass is the one that runs; what becomes of any other is
  /// nobody's business.
  bool current(uint64_t turn) const { return passing_ && turn == turn_; }
  /// The pass that runs is done.
  Actions passed();
  /// The leaf in hand is to be taken anew, from its first pass on. Whether it
  /// was before.
  bool was_repeated() const { return repeated_; }
  Actions repeat();

  // --- ending early ---------------------------------------------------------
  /// A step that has begun is taken to its end, and no other is begun.
  void pause();
  Actions end_at(uint64_t step);
  uint64_t next_step() const; ///< the first that it has not begun

private:
  enum class Phase : uint8_t { sealed, going, idle };
  enum class Here : uint8_t { no, asked, yes };

  size_t passes() const { return leaves_.size() * 2 * options_.parts; }
  uint32_t part_of(size_t pass) const;
  bool needs(uint32_t part) const;
  bool has_begun() const { return next_ > 0 || passing_; }
  void take_leaves();
  /// Returns whether there is anything to do of it.
  bool begin_next(Actions& out);
  void go_on(Actions& out);

  StepNodes& nodes_;
  Options options_;
  Phase phase_ = Phase::sealed;
  uint64_t end_ = 0;
  bool paused_ = false;
  std::vector<Here> parts_;
  std::vector<uint32_t> leaves_; ///< of the step: ranks
  size_t next_ = 0;              ///< pass: it runs, or is to
  bool passing_ = false;
  bool repeated_ = false; ///< the leaf in hand
  uint64_t turn_ = 0;     ///< counts passes
};

} // namespace troupe

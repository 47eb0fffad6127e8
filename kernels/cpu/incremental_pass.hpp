#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/rotary_loops.hpp"
#include "kernels/engine/operator.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::kernels {

/// Reads one sample of a language model as its tokens become known: keys and
/// values of the places before are kept, so a token costs what one place costs
/// and not the window.
/// Bits: of each place those that the whole pass has there (Replica::evaluate),
/// but for dense layers behind relu of more than 256 inputs, whose chains may
/// leave zeros out (numeric_classes.md): there within 1e-6.
class IncrementalPass {
public:
  /// Errors: UsageError naming an operator that looks at more places than its
  /// own and those before it, or a graph that is of no text.
  explicit IncrementalPass(const Graph& graph);
  IncrementalPass(const IncrementalPass&) = delete;
  IncrementalPass& operator=(const IncrementalPass&) = delete;

  uint64_t window() const { return window_; } ///< places that there are
  uint64_t places() const { return places_; } ///< that have been read
  /// Forgets what was read.
  void restart() { places_ = 0; }

  /// Reads the tokens of the next places, one at least and no more than are
  /// left. Returns the logits of the last one, [graph.classes()], which stay
  /// until the next call.
  /// Shapes: parameters flat by Layout(graph).
  /// Errors: InputError for a token that the table has not.
  std::span<const float> read(const float* parameters,
                              std::span<const int32_t> tokens);

private:
  /// What the places before left of an operator, or what it needs of them.
  struct Kept {
    AttentionShape attention;
    Buffer keys;
    Buffer values;
    RotaryShape rotary;
    std::shared_ptr<const std::vector<float>> turns;
  };

  void prepare(size_t op);
  std::shared_ptr<const std::vector<float>> turns_for(size_t op) const;
  void run(size_t op, const float* parameters, uint32_t rows);
  const float* input(const Op& op, size_t which = 0) const {
    return at_[op.inputs[which]];
  }

  Graph graph_; ///< with one place where the model has a window
  Layout layout_;
  uint64_t window_;
  uint64_t places_ = 0;
  size_t mixing_end_ = 0; ///< behind the last operator that reads other places
  std::vector<std::unique_ptr<Operator>> operators_; ///< null: done here
  std::vector<OpArgs> args_;
  std::vector<Kept> kept_;
  std::vector<Buffer> values_;
  std::vector<const float*> at_; ///< where values are, of the call in hand
  Buffer saved_;
  Buffer scratch_;
};

} // namespace troupe::kernels

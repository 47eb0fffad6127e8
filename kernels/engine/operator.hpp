#pragma once

#include "kernels/engine/whole_step.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// Sums small runs of doubles over the virtual ranks of a step, in place, along
/// the fixed tree: what a cross-replica batch norm needs in the middle of a
/// pass. Null: there are no others.
class StatisticsExchange {
public:
  virtual ~StatisticsExchange() = default;
  /// Returns the number of rows over all ranks. Blocks until all have called.
  virtual uint64_t sum(double* values, size_t count, uint64_t rows) = 0;
};

/// What an operator leaves of a loss: written to device memory by one thread.
struct LossTotals {
  double loss = 0;      ///< summed over the rows, nats
  uint64_t correct = 0; ///< labels that the largest logit names
};

/// Which gradients a backward pass is to give: those of inputs, for which the
/// operators before wait, those of parameters, for which nobody does, or both.
enum class BackwardHalf : uint8_t { both, inputs, weights };

/// The arguments of one pass of one operator. All pointers are of the device's
/// memory, 64-byte aligned; shapes are [rows, the value's shape].
struct OpArgs {
  uint32_t rows = 0;
  bool training = false;
  std::vector<const float*> inputs; ///< an int32 value's is read by `ids`
  float* output = nullptr;
  std::vector<const float*> parameters;

  /// Of the backward pass: the gradient of the output, which the operator may
  /// overwrite; where to put the gradients of inputs (null: nobody asks) and
  /// parameters. Where accumulate is set, they are added to what is there,
  /// else they overwrite it.
  float* output_gradient = nullptr;
  std::vector<float*> input_gradients;
  std::vector<uint8_t> accumulate_inputs;
  std::vector<float*> parameter_gradients;
  std::vector<uint8_t> accumulate_parameters;
  /// Of an operator that Needs::splits alone; the half for inputs comes first,
  /// and neither looks at the other's gradients.
  BackwardHalf half = BackwardHalf::both;

  float* saved = nullptr;   ///< Needs::saved; kept from forward to backward
  float* scratch = nullptr; ///< Needs::scratch; of this call alone

  /// Of the batch: class indices [rows, labels], or targets; null where only
  /// predictions are wanted. For losses alone.
  const int32_t* labels = nullptr;
  const float* targets = nullptr;
  LossTotals* totals = nullptr;

  /// The rows are those of several leaves; empty: of one. For dense operators
  /// alone: the others see one leaf at a time. No parameter accumulates then.
  StackedLeaves leaves;

  /// The best class of each label's place [rows, labels]; null where it is not
  /// wanted.
  int32_t* classes = nullptr;

  /// Of (seed, step, virtual rank), for dropout; device memory, read when the
  /// pass runs, so that a captured pass sees the new one.
  const uint64_t* key = nullptr;
  StatisticsExchange* exchange = nullptr;
  WholeStep step; ///< for running statistics

  const int32_t* ids(size_t input) const {
    return reinterpret_cast<const int32_t*>(inputs[input]);
  }
};

/// What the squared deviations of a micro-batch's values from their mean are
/// multiplied with, so that their sum over the micro-batches of a step, divided
/// by the step's rows, is the variance that they have together: pooled by
/// values less one. A row has `places` values; `rows` are the micro-batch's, or
/// those of all that exchanged. 0: nothing has two values.
/// Source: the pooled variance, for example Cochran, Sampling Techniques, 5.
double variance_share(const OpArgs& args, uint64_t rows, uint64_t places);

/// Memory in elements: so many for each row, and so many besides.
struct Extent {
  uint64_t per_row = 0;
  uint64_t fixed = 0;
  uint64_t of(uint64_t rows) const { return per_row * rows + fixed; }
};

/// What an operator wants of the plan of buffers.
struct Needs {
  Extent saved;
  Extent scratch;
  /// The backward pass reads this input's value (bit i: input i), the output.
  uint64_t backward_reads_inputs = 0;
  bool backward_reads_output = false;
  /// The output may take the first input's place (and the first input's
  /// gradient that of the output's gradient), where nobody else needs it.
  bool in_place = false;
  /// The output is the first input's memory, read under another shape
  /// (reshape): neither pass is run.
  bool alias = false;
  /// The gradient of each input is that of the output, as the backward pass
  /// leaves it: it may be given in its place, to several inputs too.
  bool passes_gradient = false;
  /// The backward pass leaves the gradient of the output as it is; false: it
  /// may overwrite it.
  bool keeps_gradient = false;
  /// Of losses: the backward pass gives totals too, and does without what the
  /// forward pass leaves.
  bool backward_gives_loss = false;
  /// Gradients of inputs can be added to what is there; without it the engine
  /// adds them.
  bool accumulates = false;
  /// The backward pass comes in halves, too. That for weights reads the
  /// gradient of the output as the other half left it, and what
  /// backward_reads_inputs says; no output, and nothing saved. Not in place.
  bool splits = false;
};

/// One operator on one device, for up to max_rows rows; used by one thread at a
/// time. Bits depend on shapes and values alone.
/// Completion: CPU: when the call returns; CUDA: in the order of the stream
/// that the operator was made with; no call waits or allocates.
class Operator {
public:
  virtual ~Operator() = default;
  virtual Needs needs() const = 0;
  virtual void forward(const OpArgs& args) = 0;
  /// Called after forward with the same arguments and more. Losses: no
  /// output_gradient; the gradient of the summed loss.
  virtual void backward(const OpArgs& args) = 0;
};

} // namespace troupe::kernels

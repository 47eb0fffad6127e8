#pragma once

#include "kernels/collective/reducer.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// A device, or several that run the same programs, which keep parameters,
/// optimizer state and the gradients of a step in their memory: the host sends
/// batches, and asks for the rest where it is to be saved. Used by one thread
/// at a time.
class ResidentReplica {
public:
  virtual ~ResidentReplica() = default;

  /// Devices that share a step's passes; each has gradients of its own, and
  /// parameters and state as the others have. Places below are less.
  virtual uint32_t places() const { return 1; }

  /// Sets parameters and state; nothing is left of a step that had begun.
  /// Shapes: parameters flat by Layout(graph); state [state_slots(rule)] of
  /// these, each `stride` elements after the one before.
  virtual void write(const float* parameters, const float* state,
                     uint64_t stride) = 0;
  /// Copies them to the host; shapes as of write(). Completion: when the call
  /// returns.
  virtual void read(float* parameters, float* state, uint64_t stride) = 0;

  /// Begins a step anew: there is no gradient.
  virtual void forget_gradients() = 0;
  /// Begins a micro-batch's gradient, beside those that its place has. The
  /// batch may be changed when the call returns. Calls that follow one another
  /// in different places, with as many rows, are computed at the same time.
  /// Errors: as Replica::gradient.
  virtual void push_gradient(const Batch& batch, uint32_t place = 0) = 0;
  /// What the oldest of those gave that were not asked for yet; waits for it.
  virtual LeafStats next_stats() = 0;
  /// Puts the sum of a place's two newest gradients in their place; fewer are a
  /// bug.
  virtual void add_gradients(uint32_t place = 0) = 0;
  /// Of several places: sums what they have along the program, of which they
  /// are the members, each one's vectors in the order in which they came; with
  /// `any_order` at most one each. Every place has the sum alone then.
  virtual void sum_places(const SumProgram& /*program*/, bool /*any_order*/) {}

  // Below, gradients are those that every place has, or the only one.

  /// Takes the newest gradient to the host, or to other memory of the device,
  /// where others may add to it; none is a bug. False: it is not finite.
  /// Shapes: flat by Layout(graph); gaps are zero or left alone. Completion:
  /// when the call returns.
  virtual bool pop_gradient(float* to) = 0;
  /// Puts a gradient of the host or of the device, of that shape, gaps finite,
  /// beside those that are there. Completion: when update() returns.
  virtual void push_sum(const float* from) = 0;
  /// The two calls will find this memory of the host: until what is returned
  /// ends, the device reaches it without a copy between, if it can. Null: it
  /// cannot, or the memory is its own. Shapes: array [Layout(graph).total];
  /// other calls touch nothing of its pages.
  virtual std::shared_ptr<void> pin(float* /*array*/) { return nullptr; }

  struct Update {
    uint64_t number = 1; ///< from 1, for bias correction
    float learning_rate = 1e-3f;
    float samples = 1;        ///< what the gradient's sum is divided by
    double clip_norm = 0;     ///< of the mean gradient; 0: not clipped
    bool lazy_tables = false; ///< UpdateArgs::lazy, of parameters by rows
  };
  /// Ends the step, which has one gradient (another number is a bug). False:
  /// the gradient is not finite, and parameters and state are as they were.
  virtual bool update(const Update& update) = 0;
};

/// Whether devices of this kind have one that updates with the bits of the
/// host: then those that train together may, each by itself.
bool updates_as_the_host(const Graph& graph, DeviceId device);

/// Whether devices of this kind have one at all, that knows the rule of such a
/// graph.
bool keeps_variables(const Graph& graph, DeviceId device,
                     const OptimizerOptions& rule);

/// Null where none keeps_variables(). Errors: as make_replica.
std::unique_ptr<ResidentReplica>
make_resident_replica(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision = Precision::float32);

} // namespace troupe

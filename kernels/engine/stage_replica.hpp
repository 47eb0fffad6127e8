#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/stages.hpp"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

struct StageOptions {
  uint32_t max_rows = 1;  ///< of a micro-batch
  uint32_t in_flight = 1; ///< micro-batches held at once
  Precision precision = Precision::float32;
  /// The backward pass comes in halves, that for weights later: what it reads
  /// is kept until then.
  bool in_halves = false;
  /// A slot keeps what came to the part alone, and the backward pass, or the
  /// half for inputs, begins with another forward pass.
  bool recompute = false;
  /// Else, of the graph's operators: those of the same number from 1 on are a
  /// layer whose activations alone are computed again (MemoryPlan); empty:
  /// there are none.
  std::vector<uint32_t> layers = {};
  /// Micro-batches whose activations are held at once where they are computed
  /// again: one more than are between the halves, or one; of a part with
  /// rank_sums() all.
  uint32_t activations = 1;
  /// A device with memory of its own keeps parameters and gradient there
  /// between passes; false: parts that are made together and have a micro-batch
  /// each share it.
  bool keeps_parameters = true;
};

/// A stage's working memory on one device: takes micro-batches forward and
/// backward through a part of a graph, several of them between the two at once.
/// Used by one thread at a time. The gradient that the stages give together is
/// bit for bit that of Replica::gradient().
///
/// What crosses is flat: each value, or gradient, of a crossing as [rows, its
/// shape], one after the other; then the gradients of parameters that cross.
/// What no operator of the part has is handed on as it came.
///
/// Of a tensor member's share of a part (TensorPart) a pass stops before each
/// of its sums, and is taken on by go_on(): forward() and the calls that go
/// backward begin it, and what they return or write is there once it is done,
/// for which their pointers must live so long. The members' gradients together
/// are those of the whole if each sum is that of the tree.
///
/// A batch's exchange is called from within its passes, as often as rank_sums()
/// has it; where all activations are computed again, once more for those of the
/// forward pass. Until it returns, passes of other slots may begin, each on a
/// thread of its own, of which one at a time runs.
class StageReplica {
public:
  virtual ~StageReplica() = default;

  /// Takes the micro-batch of a slot forward. Slots are [0, in_flight); the
  /// slot is taken until it has gone backward. The batch's memory must live as
  /// long. Parameters have the same values for all slots that are taken.
  /// Shapes: parameters flat by layout(); in [forward_elements of part().in];
  /// out [forward_elements of part().out]. Null where they have none.
  /// Returns loss and hits where the part ends with the loss, else zeros.
  virtual LeafStats forward(uint32_t slot, const float* parameters,
                            const Batch& batch, const float* in,
                            float* out) = 0;
  /// The same micro-batch backward; the parameters are still those.
  /// Shapes: from_next [backward_elements of part().out]; gradient, flat by
  /// layout(), is overwritten but for its gaps; to_previous
  /// [backward_elements of part().in].
  virtual void backward(uint32_t slot, const float* from_next, float* gradient,
                        float* to_previous) = 0;
  /// The same in two calls, of a stage made for halves; other micro-batches may
  /// come between them. Both give the bits of backward().
  virtual void backward_inputs(uint32_t slot, const float* from_next,
                               float* to_previous) = 0;
  virtual void backward_weights(uint32_t slot, float* gradient) = 0;

  /// Where this member's partial sum lies that the pass in hand waits for: the
  /// sum of all is to stand there before go_on(). Empty: no pass waits.
  std::span<float> awaited() const { return awaited_; }
  /// Takes the pass that waits on, to its next sum or its end. Returns loss and
  /// hits of a forward pass that is done, else zeros.
  virtual LeafStats go_on() = 0;
  /// The sums that a pass stops before, in order: of forward(), and of what
  /// goes backward but the half for weights, which has none. Where activations
  /// are computed again that begins with those of the forward pass.
  const std::vector<TensorSum>& forward_sums() const { return forward_sums_; }
  const std::vector<TensorSum>& backward_sums() const { return backward_sums_; }

  /// The parameters of a micro-batch that has gone forward lie elsewhere since
  /// then, with the same values: where `parameters` points, flat by layout().
  virtual void move_parameters(uint32_t slot, const float* parameters) = 0;

  /// Lets go of micro-batches that have gone forward and will not come back.
  virtual void abandon() = 0;

  const GraphPart& part() const { return part_; }
  /// Of part().parameters.
  const Layout& layout() const { return layout_; }
  /// Bytes of working memory, of all slots; no parameters nor gradient.
  virtual uint64_t memory_bytes() const = 0;

protected:
  StageReplica(const Graph& graph, GraphPart part, bool recompute)
    : part_(std::move(part)), layout_(graph, part_.parameters) {
    for (const auto& sum : part_.sums)
      if (sum.forward)
        forward_sums_.push_back(sum);
    if (recompute)
      backward_sums_ = forward_sums_;
    for (const auto& sum : part_.sums)
      if (!sum.forward)
        backward_sums_.push_back(sum);
  }

  GraphPart part_;
  Layout layout_;
  std::vector<TensorSum> forward_sums_;
  std::vector<TensorSum> backward_sums_;
  std::span<float> awaited_;
};

/// Makes the part of a graph on a device.
/// Errors: InputError for a device that has no stages (a plugin's), is not
/// there, or cannot compute an operator or the precision.
std::unique_ptr<StageReplica>
make_stage_replica(const Graph& graph, GraphPart part, DeviceId device,
                   const StageOptions& options);

/// The same of several parts, whose passes come one after the other: they share
/// what a pass alone needs of the device. Options by part.
using StageReplicas = std::vector<std::unique_ptr<StageReplica>>;
StageReplicas
make_stage_replicas(const Graph& graph, const std::vector<GraphPart>& parts,
                    DeviceId device, const std::vector<StageOptions>& options);

/// What memory_bytes() of parts of a graph would be, on a CPU, without making
/// them. Used by one thread at a time; the graph outlives it.
class PartMemory {
public:
  virtual ~PartMemory() = default;
  /// Of as many micro-batches and activations as the options have, which are
  /// else those that it was made for. Errors: as of make_stage_replica().
  virtual uint64_t bytes(const GraphPart& part,
                         const StageOptions& options) = 0;
};
std::unique_ptr<PartMemory> make_part_memory(const Graph& graph,
                                             const StageOptions& options);

/// Of one part. Errors: as above.
uint64_t stage_memory_bytes(const Graph& graph, const GraphPart& part,
                            const StageOptions& options);

} // namespace troupe

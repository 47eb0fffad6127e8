#pragma once

#include "kernels/engine/backward_halves.hpp"
#include "kernels/engine/device.hpp"
#include "kernels/engine/memory_plan.hpp"
#include "kernels/engine/whole_step.hpp"
#include "kernels/graph/graph.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe {
class ParameterGate;
} // namespace troupe

namespace troupe::kernels {

/// Runs a graph, or a part of one, on a device: forward, backward, in the
/// graph's order, in memory planned once.
class Engine {
public:
  /// The device must outlive the engine.
  Engine(const Graph& graph, Device& device, uint32_t max_rows);
  /// Of a part. Parameters and gradient are then flat by
  /// Layout(graph, part.parameters). `in_halves`: there is memory for a
  /// backward pass in halves, and it comes so. `layers`: what is computed again
  /// (MemoryPlan), for which lend() gives memory.
  Engine(const Graph& graph, GraphPart part, Device& device, uint32_t max_rows,
         bool in_halves = false, const std::vector<uint32_t>& layers = {});

  /// All pointers are of the device's memory. Parameters and gradient are flat
  /// by Layout(graph), of a part by its own.
  struct Pass {
    uint32_t rows = 0;
    bool training = false;
    /// In training: totals, and what a loss saves, are not there before the
    /// backward pass has run.
    bool loss_waits = false;
    const float* parameters = nullptr;
    const float* features = nullptr;
    const int32_t* ids = nullptr;
    const int32_t* labels = nullptr;
    const float* targets = nullptr;
    const uint64_t* key = nullptr;
    LossTotals* totals = nullptr; ///< of each leaf
    StackedLeaves leaves;         ///< empty: one; else the graph stacks()
    int32_t* classes = nullptr;
    StatisticsExchange* exchange = nullptr;
    ParameterGate* gate = nullptr;
    WholeStep step;
  };

  /// Waits at the gate, where there is one, for the parameters of each operator
  /// before it runs that; what it has abandoned can be begun anew.
  void forward(const Pass& pass);
  /// After forward with the same pass. `ready(i)` is called once for each
  /// parameter, when the gradient of parameter i is final; the order is known
  /// in advance: gradient_order(). Of a part, `gradient` holds what the next
  /// stage gave of the parameters that cross, which is added to.
  void backward(const Pass& pass, float* gradient,
                const std::function<void(uint32_t)>& ready = {});

  /// The same passes in runs of operators, one after the other: forward from
  /// the part's first on, backward from its end on. Between two runs a value,
  /// or the gradient of one, may be changed in its place.
  void forward(const Pass& pass, OpRange ops);
  void backward(const Pass& pass, OpRange ops, float* gradient);
  /// Where layers are computed again: memory for the next pass, forward or
  /// backward (of halves for both), which others may have when it is done.
  /// Shape: [memory().total - memory().held], aligned as what a device
  /// allocates.
  void lend(float* passing) { passing_ = passing; }

  /// The parameters of a pass that has gone forward lie elsewhere since then.
  void move_parameters(const Pass& pass);

  /// The halves of a backward pass, one after the other, with the bits of the
  /// whole one. What comes and goes of the part's neighbours does so in the
  /// half for inputs. Shape: early, flat by Layout(graph, halves().early);
  /// holds what the next stage gave, as above, and is to be copied to the
  /// gradient before the half for weights adds to it.
  void backward_inputs(const Pass& pass, float* early);
  void backward_inputs(const Pass& pass, OpRange ops, float* early);
  void backward_weights(const Pass& pass, float* gradient);
  const BackwardHalves& halves() const { return halves_; }

  /// Of a part: where forward() finds, or leaves, a value that crosses; where
  /// backward() finds or leaves its gradient. Null: no operator has it.
  float* value(uint32_t value) const { return at(plan_.values[value]); }
  const float* sent_value(uint32_t value) const { return places_[value]; }
  /// What the loss took in the forward pass, [rows, graph.outputs()].
  const float* outputs() const { return places_[graph_.loss().inputs[0]]; }
  float* gradient(uint32_t value) const { return at(plan_.gradients[value]); }

  /// Parameters in the order in which their gradients become final.
  const std::vector<uint32_t>& gradient_order() const { return order_; }
  const MemoryPlan& memory() const { return plan_; }

private:
  float* at(uint64_t offset) const;
  void bind(const Pass& pass);
  template <class Run>
  void leaf_by_leaf(const Pass& pass, size_t op, const Run& run);
  void begin_backward(const Pass& pass);
  void run_backward(const Pass& pass, OpRange ops, BackwardHalf half,
                    float* gradient, const Layout& layout,
                    const std::function<void(uint32_t)>& ready);
  void give_to_parameters(size_t op, float* gradient, const Layout& layout,
                          std::vector<uint8_t>& written);
  void run_operator_backward(const Pass& pass, size_t op);
  void pass_on(size_t op);

  Graph graph_;
  GraphPart part_;
  Layout layout_;
  Device& device_;
  uint32_t max_rows_;
  std::vector<std::unique_ptr<Operator>> operators_; ///< null: another part's
  std::vector<Needs> needs_;
  bool in_halves_;
  BackwardHalves halves_;
  Layout early_layout_;
  MemoryPlan plan_;
  float* arena_ = nullptr;
  float* passing_ = nullptr; ///< behind what is held; null: nothing is
  std::vector<OpArgs> args_;
  std::vector<const float*> places_; ///< of values, of the pass in hand
  std::vector<uint8_t> begun_;   ///< gradients of values, of a backward pass
  std::vector<uint8_t> written_; ///< the same of parameters
  std::vector<uint32_t> order_;
  /// Per operator: the parameters that are final after its backward pass.
  std::vector<std::vector<uint32_t>> final_;
};

} // namespace troupe::kernels

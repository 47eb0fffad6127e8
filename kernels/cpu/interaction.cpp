#include "kernels/base/require.hpp"
#include "kernels/cpu/interaction_loops.hpp"
#include "kernels/cpu/operators.hpp"

namespace troupe::kernels {

namespace {

/// Interaction and the factorization machine's term: both take n vectors of
/// one width.
class Interaction final : public Operator {
public:
  explicit Interaction(const CpuOpSite& site)
    : pairs_(site.op.kind == OpKind::interaction),
      vectors_(site.input(0).at(0)),
      width_(site.input(0).at(1)),
      outputs_(elements(site.output())) {
    require(outputs_ == (pairs_ ? vectors_ * (vectors_ - 1) / 2 : 1),
            "output of an interaction");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    for (size_t r = 0; r < args.rows; ++r) {
      const auto* x = args.inputs[0] + r * vectors_ * width_;
      auto* y = args.output + r * outputs_;
      if (pairs_)
        interaction_loops().interact(x, vectors_, width_, y);
      else
        *y = interaction_loops().factorize(x, vectors_, width_);
    }
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    const bool add = args.accumulate_inputs[0];
    for (size_t r = 0; r < args.rows; ++r) {
      const auto* x = args.inputs[0] + r * vectors_ * width_;
      const auto* dy = args.output_gradient + r * outputs_;
      auto* dx = args.input_gradients[0] + r * vectors_ * width_;
      if (pairs_)
        interaction_loops().interact_back(x, dy, vectors_, width_, dx, add);
      else
        interaction_loops().factorize_back(x, *dy, vectors_, width_, dx, add);
    }
  }

private:
  bool pairs_;
  size_t vectors_;
  size_t width_;
  size_t outputs_;
};

} // namespace

OperatorPtr make_interaction(const CpuOpSite& site) {
  return std::make_unique<Interaction>(site);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/interaction_leaf.inc"
#define TABLE_TYPE InteractionLoops
#define TABLE_NAME interaction_loops
#define TABLE_ENTRIES \
  add_scaled, scale, dot, interact, interact_back, factorize, factorize_back
#include "kernels/cpu/per_isa.inc"

#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/row_loops.hpp"

namespace troupe::kernels {

namespace {

/// Layer norm and rms norm. The forward pass keeps a row's two moments.
class Norm final : public Operator {
public:
  explicit Norm(const CpuOpSite& site)
    : centred_(site.op.kind == OpKind::layer_norm),
      has_shift_(site.op.parameters.size() > 1),
      epsilon_(site.op.attributes.epsilon),
      columns_(site.input(0).back()),
      repeats_(elements(site.input(0)) / columns_) {}

  Needs needs() const override {
    Needs needs;
    needs.saved = {2 * repeats_, 0};   // the Moments of a row
    needs.scratch = {0, 2 * columns_}; // sums over rows, before they are added
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    NormArgs norm = {};
    norm.x = args.inputs[0];
    norm.scale = args.parameters[0];
    norm.shift = has_shift_ ? args.parameters[1] : nullptr;
    norm.y = args.output;
    static_assert(sizeof(Moments) == 2 * sizeof(float));
    norm.moments = reinterpret_cast<Moments*>(args.saved);
    norm.rows = args.rows * repeats_;
    norm.columns = columns_;
    norm.epsilon = epsilon_;
    norm.centred = centred_;
    row_loops().norm(norm);
  }

  void backward(const OpArgs& args) override {
    auto target = [&](size_t i) {
      return args.accumulate_parameters[i] ? args.scratch + i * columns_
                                           : args.parameter_gradients[i];
    };
    NormBackArgs norm = {};
    norm.x = args.inputs[0];
    norm.scale = args.parameters[0];
    norm.d = args.output_gradient;
    norm.moments = reinterpret_cast<const Moments*>(args.saved);
    norm.x_gradient = args.input_gradients[0];
    norm.accumulate = args.accumulate_inputs[0] != 0;
    norm.scale_gradient = target(0);
    norm.shift_gradient = has_shift_ ? target(1) : nullptr;
    norm.rows = args.rows * repeats_;
    norm.columns = columns_;
    norm.centred = centred_;
    row_loops().norm_back(norm);
    for (size_t i = 0; i < args.parameters.size(); ++i)
      if (args.accumulate_parameters[i])
        loops().add(target(i), args.parameter_gradients[i],
                    args.parameter_gradients[i], columns_);
  }

private:
  bool centred_;
  bool has_shift_;
  float epsilon_;
  size_t columns_;
  size_t repeats_; ///< vectors of a sample
};

} // namespace

OperatorPtr make_layer_norm(const CpuOpSite& site) {
  return std::make_unique<Norm>(site);
}

} // namespace troupe::kernels

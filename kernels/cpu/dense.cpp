#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/require.hpp"

namespace troupe::kernels {

namespace {

class Dense final : public Operator {
public:
  explicit Dense(const CpuOpSite& site)
    : attributes_(site.op.attributes),
      inputs_(site.input(0).back()),
      outputs_(attributes_.units),
      repeats_(elements(site.input(0)) / inputs_) {
    require(attributes_.activation == Activation::none
              || attributes_.activation == Activation::relu,
            "activation of dense");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.scratch = {0, outputs_};
    needs.backward_reads_output = relu();
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    multiply(Side::as_is, weight_side(), rows, outputs_, inputs_,
             args.inputs[0], args.parameters[0], args.output);
    loops().bias_forward({args.output, outputs_, rows, outputs_},
                         args.parameters[1], relu());
  }

  void backward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    auto* delta = args.output_gradient;
    const bool added = args.accumulate_parameters[1];
    auto* sums = added ? args.scratch : args.parameter_gradients[1];
    loops().bias_backward({delta, outputs_, rows, outputs_},
                          relu() ? args.output : nullptr, sums);
    if (added)
      loops().add(sums, args.parameter_gradients[1],
                  args.parameter_gradients[1], outputs_);
    multiply(Side::transposed, Side::as_is, inputs_, outputs_, rows,
             args.inputs[0], delta, args.parameter_gradients[0],
             args.accumulate_parameters[0]);
    if (args.input_gradients[0] != nullptr)
      multiply(Side::as_is, Side::transposed, rows, inputs_, outputs_, delta,
               args.parameters[0], args.input_gradients[0],
               args.accumulate_inputs[0]);
  }

private:
  bool relu() const { return attributes_.activation == Activation::relu; }
  Side weight_side() const { return Side::as_is; }

  OpAttributes attributes_;
  size_t inputs_;
  size_t outputs_;
  size_t repeats_; ///< vectors of a sample
};

} // namespace

OperatorPtr make_dense(const CpuOpSite& site) {
  return std::make_unique<Dense>(site);
}

} // namespace troupe::kernels

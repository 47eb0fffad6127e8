#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/nonzero_matrix.hpp"
#include "kernels/cpu/operators.hpp"

namespace troupe::kernels {

namespace {

/// Up to which share of nonzero elements a product is NonzeroMatrix's (EPYC,
/// AVX-512; what is faster at 16, 64 and 256 rows). With few rows most time
/// goes into fetching the weight, and oneDNN is slow where it is transposed.
double most_nonzero_inputs(size_t rows) {
  return rows < 48 ? 0.3 : rows < 128 ? 0.45 : 0.55;
}
constexpr double most_nonzero_gradients = 0.65;

class Dense final : public Operator {
public:
  explicit Dense(const CpuOpSite& site)
    : kind_(site.op.attributes.activation),
      has_bias_(site.op.parameters.size() > 1),
      transposed_(site.op.attributes.transposed),
      inputs_(site.input(0).back()),
      outputs_(site.op.attributes.units),
      repeats_(elements(site.input(0)) / inputs_),
      may_be_sparse_(!transposed_ && site.precision == Precision::float32),
      products_(site.precision) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    if (keeps_slope())
      needs.saved = {repeats_ * outputs_, 0};
    else
      needs.backward_reads_output = kind_ != Activation::none;
    needs.scratch = {0, outputs_};
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    sparse_ = may_be_sparse_
              && elements_.take(args.inputs[0], rows, inputs_, outputs_,
                                most_nonzero_inputs(rows));
    if (sparse_)
      elements_.multiply(args.inputs[0], Side::as_is, args.parameters[0],
                         outputs_, args.output, false);
    else
      products_.multiply(Side::as_is,
                         transposed_ ? Side::transposed : Side::as_is, rows,
                         outputs_, inputs_, args.inputs[0], args.parameters[0],
                         args.output);
    if (!has_bias_ && kind_ == Activation::none)
      return;
    elementwise_loops().bias(
      kind_, {args.output, has_bias_ ? args.parameters[1] : nullptr,
              keeps_slope() && args.training ? args.saved : nullptr,
              args.output, rows, outputs_});
  }

  void backward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    auto* delta = args.output_gradient;
    before_activation(args);
    if (sparse_)
      elements_.multiply_transposed(args.inputs[0], delta, outputs_,
                                    args.parameter_gradients[0],
                                    args.accumulate_parameters[0]);
    else if (transposed_)
      products_.multiply(Side::transposed, Side::as_is, outputs_, inputs_, rows,
                         delta, args.inputs[0], args.parameter_gradients[0],
                         args.accumulate_parameters[0]);
    else
      products_.multiply(Side::transposed, Side::as_is, inputs_, outputs_, rows,
                         args.inputs[0], delta, args.parameter_gradients[0],
                         args.accumulate_parameters[0]);
    if (args.input_gradients[0] != nullptr)
      give_back(args);
  }

private:
  /// The slope is worked out along with the output where both take the same
  /// exponential: twice that takes 2 % more of a transformer's step.
  bool keeps_slope() const { return slope_reads_input(kind_); }

  /// Turns the gradient of the output into that of the product, in its place,
  /// and sums it for the bias. relu goes along with the sum.
  void before_activation(const OpArgs& args) {
    const auto rows = args.rows * repeats_;
    auto* delta = args.output_gradient;
    const bool with_sum = has_bias_ && kind_ == Activation::relu;
    if (keeps_slope())
      elementwise_loops().multiply(delta, args.saved, delta, rows * outputs_,
                                   false);
    else if (kind_ != Activation::none && !with_sum)
      elementwise_loops().slope(kind_, {args.output, delta, delta,
                                        rows * outputs_, false});
    if (!has_bias_)
      return;
    auto* gradient = args.parameter_gradients[1];
    const bool added = args.accumulate_parameters[1];
    auto* sums = added ? args.scratch : gradient;
    loops().bias_backward({delta, outputs_, rows, outputs_},
                          with_sum ? args.output : nullptr, sums);
    if (added)
      loops().add(sums, gradient, gradient, outputs_);
  }

  /// Where relu gave zeros the product's gradient has some, too.
  void give_back(const OpArgs& args) {
    const auto rows = args.rows * repeats_;
    const auto* delta = args.output_gradient;
    if (kind_ == Activation::relu && may_be_sparse_
        && gradients_.take(delta, rows, outputs_, inputs_,
                           most_nonzero_gradients))
      gradients_.multiply(delta, Side::transposed, args.parameters[0], inputs_,
                          args.input_gradients[0], args.accumulate_inputs[0]);
    else
      products_.multiply(Side::as_is,
                         transposed_ ? Side::as_is : Side::transposed, rows,
                         inputs_, outputs_, delta, args.parameters[0],
                         args.input_gradients[0], args.accumulate_inputs[0]);
  }

  Activation kind_;
  bool has_bias_;
  bool transposed_; ///< the weight lies [outputs, inputs]
  size_t inputs_;
  size_t outputs_;
  size_t repeats_; ///< vectors of a sample
  bool may_be_sparse_;
  bool sparse_ = false; ///< the last input is in elements_, too
  NonzeroMatrix elements_;
  NonzeroMatrix gradients_; ///< of the product
  Multiplier products_;
};

} // namespace

OperatorPtr make_dense(const CpuOpSite& site) {
  return std::make_unique<Dense>(site);
}

} // namespace troupe::kernels

#pragma once

#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"

#include <vector>

namespace troupe::kernels {

/// What convolutions of each precision share: the bias, relu, and which
/// gradients are wanted. (Other activations are operators of their own.)
class ConvolutionFrame : public Operator {
public:
  explicit ConvolutionFrame(const CpuOpSite& site);

  Needs needs() const override;
  void forward(const OpArgs& args) override { multiply(args); }
  void backward(const OpArgs& args) override;

protected:
  /// Elements of scratch memory that the products below use.
  virtual uint64_t scratch() const = 0;
  /// The output. It ends with finish() of all rows, some at once while they are
  /// in a cache.
  virtual void multiply(const OpArgs& args) = 0;
  /// Adds the bias to rows of the output, and applies relu.
  void finish(const OpArgs& args, size_t row, size_t rows) const;
  /// From the gradient of the output without activation.
  virtual void give_to_weights(const OpArgs& args) = 0;
  virtual void give_to_input(const OpArgs& args) = 0;

  /// Makes the output's gradient that of the sums, as backward() does.
  void pass_relu(const OpArgs& args) const;
  size_t weights() const { return weights_; } ///< elements

  const CpuOpSite site_;

private:
  bool relu() const;
  bool has_bias() const { return no_bias_.empty(); }
  void give_to_bias(const OpArgs& args) const;
  Rows pixels(float* values, size_t rows) const;

  size_t units_;
  size_t weights_;
  std::vector<float> no_bias_; ///< zeros where the attribute is off
};

OperatorPtr make_bfloat16_convolution(const CpuOpSite& site);

} // namespace troupe::kernels

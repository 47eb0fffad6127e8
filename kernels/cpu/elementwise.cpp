#include "kernels/base/require.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/numbers/random.hpp"

#include <cmath>
#include <cstring>

namespace troupe::kernels {

namespace {

void copy(const float* from, float* to, size_t count) {
  if (from != to)
    std::memcpy(to, from, count * sizeof(float));
}

/// Passes a gradient on: nothing to do where it is in its place already.
void pass_on(const float* d, float* gradient, size_t count, bool accumulate) {
  if (gradient == nullptr || gradient == d)
    return;
  if (accumulate)
    loops().add(d, gradient, gradient, count);
  else
    copy(d, gradient, count);
}

class Activate final : public Operator {
public:
  explicit Activate(const CpuOpSite& site)
    : kind_(site.op.attributes.activation), size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = slope_reads_input(kind_);
    needs.backward_reads_output = !slope_reads_input(kind_);
    needs.in_place = !slope_reads_input(kind_);
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    elementwise_loops().bias(kind_, {args.inputs[0], nullptr, nullptr,
                                     args.output, 1, args.rows * size_});
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    elementwise_loops().slope(
      kind_, {slope_reads_input(kind_) ? args.inputs[0] : args.output,
              args.output_gradient, args.input_gradients[0], args.rows * size_,
              args.accumulate_inputs[0] != 0});
  }

private:
  Activation kind_;
  size_t size_; ///< of a sample
};

class Add final : public Operator {
public:
  explicit Add(const CpuOpSite& site)
    : kind_(site.op.attributes.activation), size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    if (slope_reads_input(kind_))
      needs.saved = {size_, 0}; // the sum
    else
      needs.backward_reads_output = kind_ != Activation::none;
    needs.in_place = true;
    needs.accumulates = true;
    needs.passes_gradient = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    elementwise_loops().add(kind_,
                            {args.inputs.data(), args.inputs.size(),
                             slope_reads_input(kind_) ? args.saved : nullptr,
                             args.output, args.rows * size_});
  }

  void backward(const OpArgs& args) override {
    const auto count = args.rows * size_;
    auto* d = args.output_gradient;
    if (kind_ != Activation::none)
      elementwise_loops().slope(kind_, {slope_reads_input(kind_) ? args.saved
                                                                 : args.output,
                                        d, d, count, false});
    for (size_t i = 0; i < args.input_gradients.size(); ++i)
      pass_on(d, args.input_gradients[i], count, args.accumulate_inputs[i]);
  }

private:
  Activation kind_;
  size_t size_;
};

class Multiply final : public Operator {
public:
  explicit Multiply(const CpuOpSite& site) : size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 3;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    elementwise_loops().multiply(args.inputs[0], args.inputs[1], args.output,
                                 args.rows * size_, false);
  }

  void backward(const OpArgs& args) override {
    for (size_t i = 0; i < 2; ++i)
      if (args.input_gradients[i] != nullptr)
        elementwise_loops().multiply(args.output_gradient, args.inputs[1 - i],
                                     args.input_gradients[i], args.rows * size_,
                                     args.accumulate_inputs[i]);
  }

private:
  size_t size_;
};

class Gate final : public Operator {
public:
  explicit Gate(const CpuOpSite& site)
    : columns_(site.output().back()),
      repeats_(elements(site.output()) / columns_) {
    require(site.input(0).back() == 2 * columns_, "swiglu takes [..., 2 n]");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    elementwise_loops().gate(
      {args.inputs[0], args.output, args.rows * repeats_, columns_});
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      elementwise_loops().gate_back(
        {args.inputs[0], args.output_gradient, args.input_gradients[0],
         args.rows * repeats_, columns_, args.accumulate_inputs[0] != 0});
  }

private:
  size_t columns_; ///< of the output
  size_t repeats_; ///< vectors of a sample
};

class Bias final : public Operator {
public:
  explicit Bias(const CpuOpSite& site) : size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    needs.scratch = {0, size_};
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    elementwise_loops().bias(Activation::none,
                             {args.inputs[0], args.parameters[0], nullptr,
                              args.output, args.rows, size_});
  }

  void backward(const OpArgs& args) override {
    auto* d = args.output_gradient;
    auto* gradient = args.parameter_gradients[0];
    const bool added = args.accumulate_parameters[0];
    auto* sums = added ? args.scratch : gradient;
    loops().bias_backward({d, size_, args.rows, size_}, nullptr, sums);
    if (added)
      loops().add(sums, gradient, gradient, size_);
    pass_on(d, args.input_gradients[0], args.rows * size_,
            args.accumulate_inputs[0]);
  }

private:
  size_t size_;
};

/// The mask is drawn again in the backward pass rather than kept. Element e,
/// counted over the micro-batch, is kept where the upper 24 of its random bits
/// reach rate 2^24.
class Dropout final : public Operator {
public:
  explicit Dropout(const CpuOpSite& site)
    : size_(elements(site.output())),
      stream_(site.op.stream.value_or(
        static_cast<uint64_t>(&site.op - site.graph.ops.data()))),
      threshold_(static_cast<uint64_t>(
        std::llround(double{site.op.attributes.rate} * 0x1p24))),
      scale_(1.0f / (1.0f - site.op.attributes.rate)) {
    require(site.op.attributes.rate >= 0 && site.op.attributes.rate < 1,
            "a dropout rate outside [0, 1)");
  }

  Needs needs() const override {
    Needs needs;
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto count = args.rows * size_;
    if (args.training)
      mask(args, args.inputs[0], args.output, false);
    else
      copy(args.inputs[0], args.output, count);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      mask(args, args.output_gradient, args.input_gradients[0],
           args.accumulate_inputs[0]);
  }

private:
  void mask(const OpArgs& args, const float* x, float* y, bool accumulate) {
    elementwise_loops().dropout({x, y, args.rows * size_,
                                 stream_key(*args.key, stream_), threshold_,
                                 scale_, accumulate});
  }

  size_t size_;
  uint64_t stream_;
  uint64_t threshold_;
  float scale_;
};

} // namespace

OperatorPtr make_elementwise(const CpuOpSite& site) {
  switch (site.op.kind) {
    case OpKind::activation:
      return std::make_unique<Activate>(site);
    case OpKind::add:
      return std::make_unique<Add>(site);
    case OpKind::multiply:
      return std::make_unique<Multiply>(site);
    case OpKind::bias:
      return std::make_unique<Bias>(site);
    case OpKind::swiglu:
      return std::make_unique<Gate>(site);
    default:
      require(site.op.kind == OpKind::dropout, "an element-wise operator");
      return std::make_unique<Dropout>(site);
  }
}

} // namespace troupe::kernels

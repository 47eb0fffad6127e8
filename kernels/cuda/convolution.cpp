#include "kernels/cuda/convolution.cuh"

#include "kernels/base/require.hpp"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/dnn.cuh"
#include "kernels/cuda/operators.cuh"

#include <algorithm>

namespace troupe::kernels {

namespace {

uint64_t rounded_up(uint64_t count) {
  return (count + 15) / 16 * 16;
}

/// float32 by own products where they are faster; else by cuDNN where it has an
/// engine, else by plain kernels. In bfloat16 the
/// operands of each pass are rounded in scratch memory, and so is its result.
class Convolution final : public CudaOperator {
public:
  explicit Convolution(const CudaOpSite& site)
    : CudaOperator(site),
      attributes_(site.op().attributes),
      has_bias_(site.op().parameters.size() > 1),
      max_rows_(site.max_rows),
      half_(site.context.precision() == Precision::bfloat16) {
    const auto& in = site.input(0);
    const auto& out = site.output();
    auto small = [](uint64_t x) { return static_cast<uint32_t>(x); };
    direct_ = {0,
               small(in[0]),
               small(in[1]),
               small(in[2]),
               small(out[0]),
               small(out[1]),
               small(out[2]),
               attributes_.kernel,
               attributes_.stride,
               attributes_.padding,
               attributes_.groups};
    require(attributes_.groups > 0 && out[2] % attributes_.groups == 0
              && in[2] % attributes_.groups == 0,
            "channels of a convolution not divisible by its groups");
    inputs_ = elements(in);
    outputs_ = elements(out);
    inner_ = uint64_t{attributes_.kernel} * attributes_.kernel
             * (in[2] / attributes_.groups);
    site.context.dnn(); // says at once where it is missing
  }

  Needs needs() const override {
    Needs needs;
    if (slope_reads_input(activation()))
      needs.saved = {outputs_, 0};
    const auto rounds = half_ ? rounded_up(max_rows_ * inputs_)
                                  + rounded_up(max_rows_ * outputs_)
                              : 0;
    const auto pixels = max_rows_ * direct_.high * direct_.wide;
    needs.scratch = {0, rounded_up(inner_ * direct_.units) + rounds
                          + cuda::chunk_scratch(pixels, direct_.units)};
    if (own_weight_gradient()) {
      auto most = direct_;
      most.rows = static_cast<uint32_t>(max_rows_);
      needs.scratch.fixed = std::max(needs.scratch.fixed,
                                     cuda::weight_gradient_scratch(most));
    }
    needs.backward_reads_inputs = 1;
    needs.backward_reads_output = activation() != Activation::none
                                  && !slope_reads_input(activation());
    return needs;
  }

  void forward(const OpArgs& args) override {
    const bool kept = slope_reads_input(activation());
    auto* sum = kept ? args.saved : args.output;
    const auto shape = shape_of(args, ConvolutionPass::forward);
    auto& dnn = context_.dnn();
    const auto* bias = has_bias_ ? args.parameters[1] : nullptr;
    const bool own = !half_ && cuda::has_forward(direct_);
    const bool relu = activation() == Activation::relu;
    const bool fused = own && (relu || activation() == Activation::none);
    if (own) {
      cuda::forward(direct(args), args.inputs[0], args.parameters[0],
                    fused ? bias : nullptr, fused && relu, sum, stream());
    } else if (dnn.has(shape, name_)) {
      put_weights(args);
      const auto* x = operand(args.inputs[0], half_x(args),
                              args.rows * inputs_);
      void* y = half_ ? half_y(args) : sum;
      dnn.run(shape, x, args.scratch, y, name_);
      if (half_)
        cuda::widen(y, sum, args.rows * outputs_, stream());
    } else {
      cuda::direct_forward(direct(args), args.inputs[0], args.parameters[0],
                           sum, stream());
    }
    if (fused) {
      launched();
      return;
    }
    const auto rows = args.rows * outputs_ / direct_.units;
    if (kept && bias != nullptr)
      cuda::bias_activation(Activation::none, sum, bias, sum, rows,
                            direct_.units, false, stream());
    if (kept || bias != nullptr || activation() != Activation::none)
      cuda::bias_activation(activation(), sum, kept ? nullptr : bias,
                            args.output, rows, direct_.units, false, stream());
    launched();
  }

  void backward(const OpArgs& args) override {
    gate(args);
    const auto* delta = args.output_gradient;
    const void* dy = operand(delta, half_y(args), args.rows * outputs_);
    weight_gradient(args, dy);
    if (args.input_gradients[0] != nullptr)
      input_gradient(args, dy);
    launched();
  }

private:
  Activation activation() const { return attributes_.activation; }
  float* half_x(const OpArgs& args) const {
    return args.scratch + rounded_up(inner_ * direct_.units);
  }
  float* half_y(const OpArgs& args) const {
    return half_x(args) + (half_ ? rounded_up(max_rows_ * inputs_) : 0);
  }
  float* sums(const OpArgs& args) const {
    return half_y(args) + (half_ ? rounded_up(max_rows_ * outputs_) : 0);
  }

  /// The values as cuDNN is to read them, rounded where that is asked for.
  const void* operand(const float* values, float* rounded, uint64_t count) {
    if (!half_)
      return values;
    cuda::round_to_half(values, rounded, count, stream());
    return rounded;
  }

  void put_weights(const OpArgs& args) {
    cuda::weights_to_dnn(args.parameters[0], args.scratch, inner_,
                         direct_.units, half_, stream());
  }

  /// Carries the gradient back through the activation; gives the bias's.
  void gate(const OpArgs& args) {
    const bool slope = activation() != Activation::none;
    if (!slope && !has_bias_)
      return;
    cuda::DeltaArgs delta;
    delta.d = args.output_gradient;
    delta.activation = activation();
    if (slope) {
      delta.at = slope_reads_input(activation()) ? args.saved : args.output;
      delta.out = args.output_gradient;
    }
    delta.rows = args.rows * outputs_ / direct_.units;
    delta.columns = direct_.units;
    if (has_bias_) {
      delta.sums = args.parameter_gradients[1];
      delta.accumulate = args.accumulate_parameters[1] != 0;
    }
    delta.scratch = sums(args);
    cuda::delta_and_sums(delta, false, false, stream());
    launched();
  }

  bool own_weight_gradient() const { return !half_ && attributes_.groups == 1; }

  void weight_gradient(const OpArgs& args, const void* dy) {
    const auto shape = shape_of(args, ConvolutionPass::weight_gradient);
    const bool add = args.accumulate_parameters[0] != 0;
    if (own_weight_gradient()) {
      cuda::weight_gradient(direct(args), args.inputs[0], args.output_gradient,
                            args.parameter_gradients[0], add, args.scratch,
                            stream());
      return;
    }
    auto& dnn = context_.dnn();
    if (!dnn.has(shape, name_)) {
      cuda::direct_weight_gradient(direct(args), args.inputs[0],
                                   args.output_gradient,
                                   args.parameter_gradients[0], add, stream());
      return;
    }
    const auto* x = operand(args.inputs[0], half_x(args), args.rows * inputs_);
    dnn.run(shape, x, args.scratch, dy, name_);
    cuda::weights_from_dnn(args.scratch, args.parameter_gradients[0], inner_,
                           direct_.units, half_, add, stream());
  }

  void input_gradient(const OpArgs& args, const void* dy) {
    const auto shape = shape_of(args, ConvolutionPass::input_gradient);
    auto& dnn = context_.dnn();
    auto* dx = args.input_gradients[0];
    if (!half_ && cuda::has_input_gradient(direct_)) {
      cuda::input_gradient(direct(args), args.output_gradient,
                           args.parameters[0], dx, args.scratch, stream());
      return;
    }
    if (!dnn.has(shape, name_)) {
      cuda::direct_input_gradient(direct(args), args.output_gradient,
                                  args.parameters[0], dx, stream());
      return;
    }
    put_weights(args);
    void* result = half_ ? half_x(args) : dx;
    dnn.run(shape, result, args.scratch, dy, name_);
    if (half_)
      cuda::widen(result, dx, args.rows * inputs_, stream());
  }

  cuda::DirectConvolution direct(const OpArgs& args) const {
    auto shape = direct_;
    shape.rows = args.rows;
    return shape;
  }

  ConvolutionShape shape_of(const OpArgs& args, ConvolutionPass pass) const {
    ConvolutionShape shape;
    shape.pass = pass;
    shape.element = half_ ? CudaElement::bfloat16 : CudaElement::float32;
    shape.rows = args.rows;
    shape.height = direct_.height;
    shape.width = direct_.width;
    shape.channels = direct_.channels;
    shape.high = direct_.high;
    shape.wide = direct_.wide;
    shape.units = direct_.units;
    shape.kernel = direct_.kernel;
    shape.stride = direct_.stride;
    shape.padding = direct_.padding;
    shape.groups = direct_.groups;
    return shape;
  }

  OpAttributes attributes_;
  bool has_bias_;
  uint64_t max_rows_;
  bool half_;
  cuda::DirectConvolution direct_{};
  uint64_t inputs_; ///< of a sample
  uint64_t outputs_;
  uint64_t inner_; ///< weights of a unit
};

} // namespace

OperatorPtr make_cuda_convolution(const CudaOpSite& site) {
  return std::make_unique<Convolution>(site);
}

} // namespace troupe::kernels

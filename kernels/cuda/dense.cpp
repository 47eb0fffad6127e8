#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/operators.cuh"

namespace troupe::kernels {

namespace {

/// Elements of float32 that so many of bfloat16 take, a multiple of 64 bytes.
uint64_t halved(uint64_t count) {
  return (count + 31) / 32 * 16;
}

/// In bfloat16 the operands are rounded once: input and weight in the forward
/// pass, kept for the backward pass, which rounds the delta.
class Dense final : public CudaOperator {
public:
  explicit Dense(const CudaOpSite& site)
    : CudaOperator(site),
      attributes_(site.op().attributes),
      has_bias_(site.op().parameters.size() > 1),
      inputs_(site.input(0).back()),
      outputs_(attributes_.units),
      repeats_(elements(site.input(0)) / inputs_),
      max_rows_(site.max_rows * repeats_),
      half_(site.context.precision() == Precision::bfloat16),
      half_input_(site.half_input(0)),
      half_output_(site.half_output()) {
    saved_weight_ = take(half_ ? halved(inputs_ * outputs_) : 0);
    saved_bias_ = take(half_output_ && has_bias_ ? halved(outputs_) : 0);
    saved_input_ = take(half_ && !half_input_ ? halved(max_rows_ * inputs_)
                                              : 0);
    saved_sum_ = take(!slope_reads_input(activation()) ? 0
                      : half_output_ ? halved(max_rows_ * outputs_)
                                     : (max_rows_ * outputs_ + 15) / 16 * 16);
  }

  Needs needs() const override {
    Needs needs;
    needs.saved = {0, saved_};
    needs.scratch = {0,
                     delta_size() + cuda::chunk_scratch(max_rows_, outputs_)};
    needs.backward_reads_inputs = half_ && !half_input_ ? 0 : 1;
    needs.backward_reads_output = activation() != Activation::none
                                  && !slope_reads_input(activation());
    needs.accumulates = true;
    needs.keeps_gradient = activation() == Activation::none
                           || (half_ && !half_output_);
    return needs;
  }

  void forward(const OpArgs& args) override {
    const void* x = args.inputs[0];
    const void* weight = args.parameters[0];
    const void* bias = has_bias_ ? args.parameters[1] : nullptr;
    const auto rows = args.rows * repeats_;
    if (half_) {
      x = operand(args);
      if (!half_input_)
        cuda::round_to_half(args.inputs[0], args.saved + saved_input_,
                            rows * inputs_, stream());
      cuda::round_to_half(args.parameters[0], args.saved + saved_weight_,
                          inputs_ * outputs_, stream());
      weight = args.saved + saved_weight_;
      if (half_output_ && has_bias_) {
        cuda::round_to_half(args.parameters[1], args.saved + saved_bias_,
                            outputs_, stream());
        bias = args.saved + saved_bias_;
      }
      launched();
    }
    product(args, x, weight, bias, rows);
  }

  void backward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    const void* delta = delta_of(args, rows);
    const void* x = operand(args);
    const void* weight = half_ ? args.saved + saved_weight_
                               : args.parameters[0];
    MatmulShape shape;
    shape.operands = type();
    shape.transpose_a = true;
    shape.k = rows;
    shape.accumulate = args.accumulate_parameters[0] != 0;
    shape.m = attributes_.transposed ? outputs_ : inputs_;
    shape.n = attributes_.transposed ? inputs_ : outputs_;
    context_.matmul().run(shape, attributes_.transposed ? delta : x,
                          attributes_.transposed ? x : delta,
                          args.parameter_gradients[0], nullptr, name_);
    if (args.input_gradients[0] == nullptr)
      return;
    shape = {};
    shape.operands = type();
    shape.result = half_input_ ? CudaElement::bfloat16 : CudaElement::float32;
    shape.transpose_b = !attributes_.transposed;
    shape.m = rows;
    shape.n = inputs_;
    shape.k = outputs_;
    shape.accumulate = args.accumulate_inputs[0] != 0;
    context_.matmul().run(shape, delta, weight, args.input_gradients[0],
                          nullptr, name_);
  }

private:
  Activation activation() const { return attributes_.activation; }
  CudaElement type() const {
    return half_ ? CudaElement::bfloat16 : CudaElement::float32;
  }
  uint64_t delta_size() const {
    return half_ ? halved(max_rows_ * outputs_) : 0;
  }
  uint64_t take(uint64_t size) {
    saved_ += size;
    return saved_ - size;
  }
  /// The input as the products read it.
  const void* operand(const OpArgs& args) const {
    return half_ && !half_input_ ? args.saved + saved_input_ : args.inputs[0];
  }

  void product(const OpArgs& args, const void* x, const void* weight,
               const void* bias, uint64_t rows) {
    const bool kept = slope_reads_input(activation());
    const bool relu = activation() == Activation::relu;
    auto* sum = kept ? args.saved + saved_sum_ : args.output;
    MatmulShape shape;
    shape.transpose_b = attributes_.transposed;
    shape.m = rows;
    shape.n = outputs_;
    shape.k = inputs_;
    shape.operands = type();
    shape.result = half_output_ ? CudaElement::bfloat16 : CudaElement::float32;
    shape.epilogue = bias == nullptr
                       ? relu ? MatmulEpilogue::relu : MatmulEpilogue::none
                     : relu ? MatmulEpilogue::relu_bias
                            : MatmulEpilogue::bias;
    const auto fused = context_.matmul().has(shape, name_);
    if (!fused)
      shape.epilogue = MatmulEpilogue::none;
    context_.matmul().run(shape, x, weight, sum, bias, name_);
    const auto columns = static_cast<uint32_t>(outputs_);
    if (!fused && kept && bias != nullptr)
      cuda::bias_activation(Activation::none, sum, bias, sum, rows, columns,
                            half_output_, stream());
    const void* left = fused || kept ? nullptr : bias;
    const bool activates = activation() != Activation::none && !(relu && fused);
    if (activates || left != nullptr)
      cuda::bias_activation(activation(), sum, left, args.output, rows, columns,
                            half_output_, stream());
    launched();
  }

  /// Carries the gradient back through activation and bias.
  const void* delta_of(const OpArgs& args, uint64_t rows) {
    const bool slope = activation() != Activation::none;
    const bool rounds = half_ && !half_output_;
    if (!slope && !rounds && !has_bias_)
      return args.output_gradient;
    cuda::DeltaArgs delta;
    delta.d = args.output_gradient;
    delta.activation = activation();
    if (slope)
      delta.at = slope_reads_input(activation()) ? args.saved + saved_sum_
                                                 : args.output;
    if (rounds)
      delta.out = args.scratch;
    else if (slope)
      delta.out = args.output_gradient;
    delta.rows = rows;
    delta.columns = static_cast<uint32_t>(outputs_);
    if (has_bias_) {
      delta.sums = args.parameter_gradients[1];
      delta.accumulate = args.accumulate_parameters[1] != 0;
    }
    delta.scratch = args.scratch + delta_size();
    cuda::delta_and_sums(delta, half_output_, half_, stream());
    launched();
    return delta.out != nullptr ? delta.out : args.output_gradient;
  }

  OpAttributes attributes_;
  bool has_bias_;
  uint64_t inputs_;
  uint64_t outputs_;
  uint64_t repeats_; ///< vectors of a sample
  uint64_t max_rows_;
  bool half_;
  bool half_input_;
  bool half_output_;
  // Where they lie in `saved`, in elements.
  uint64_t saved_ = 0;
  uint64_t saved_weight_;
  uint64_t saved_bias_;
  uint64_t saved_input_;
  uint64_t saved_sum_;
};

} // namespace

OperatorPtr make_cuda_dense(const CudaOpSite& site) {
  return std::make_unique<Dense>(site);
}

} // namespace troupe::kernels

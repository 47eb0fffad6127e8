#include "kernels/base/require.hpp"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/numbers/random.hpp"

#include <cmath>

namespace troupe::kernels {

namespace {

using namespace cuda;

constexpr uint32_t max_addends = 8;

struct Slope {
  Activation kind;
  const float* at;
  const float* d;
  float* gradient;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto x = activate_back(kind, at[i], d[i]);
    gradient[i] = accumulate ? gradient[i] + x : x;
  }
};

struct Sum {
  Activation kind;
  const float* x[max_addends];
  uint32_t count;
  float* sum; ///< null: not kept
  float* y;

  __device__ void operator()(uint64_t i) const {
    auto z = x[0][i];
    for (uint32_t k = 1; k < count; ++k)
      z += x[k][i];
    if (sum != nullptr)
      sum[i] = z;
    y[i] = activate(kind, z);
  }
};

struct Pass {
  const float* from;
  float* to;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    to[i] = accumulate ? to[i] + from[i] : from[i];
  }
};

struct Product {
  const float* a;
  const float* b;
  float* y;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto x = a[i] * b[i];
    y[i] = accumulate ? y[i] + x : x;
  }
};

struct AddRow {
  const float* x;
  const float* row;
  float* y;
  uint64_t size;

  __device__ void operator()(uint64_t i) const { y[i] = x[i] + row[i % size]; }
};

/// x [rows, 2 columns] and y [rows, columns]: y = silu(left half) right half.
/// A thread takes N columns.
struct GateArgs {
  const void* x;
  void* y;
  const void* d;  ///< of y
  void* gradient; ///< of x
  uint64_t columns;
  bool accumulate;
};

template <class X, class Y, uint32_t N>
struct Gated {
  GateArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto* x = static_cast<const X*>(args.x) + i * N
                    + i / (args.columns / N) * args.columns;
    auto y = load<N>(x);
    const auto right = load<N>(x + args.columns);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      y[k] = activate(Activation::silu, y[k]) * right[k];
    store(y, static_cast<Y*>(args.y) + i * N);
  }
};

template <class X, class Y, uint32_t N>
struct GateBack {
  GateArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto at = i * N + i / (args.columns / N) * args.columns;
    const auto* x = static_cast<const X*>(args.x) + at;
    auto left = load<N>(x);
    auto right = load<N>(x + args.columns);
    const auto d = load<N>(static_cast<const Y*>(args.d) + i * N);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k) {
      const auto z = left[k];
      left[k] = activate_back(Activation::silu, z, d[k] * right[k]);
      right[k] = d[k] * activate(Activation::silu, z);
    }
    auto* gradient = static_cast<X*>(args.gradient) + at;
    give(left, gradient, args.accumulate);
    give(right, gradient + args.columns, args.accumulate);
  }
};

/// The mask is drawn again in the backward pass rather than kept.
struct Mask {
  const float* x;
  float* y;
  const uint64_t* key;
  uint64_t stream;
  uint64_t threshold;
  float scale;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto bits = random_bits(stream_key(*key, stream), i) >> 40;
    const auto z = bits >= threshold ? x[i] * scale : 0.0f;
    y[i] = accumulate ? y[i] + z : z;
  }
};

class Elementwise : public CudaOperator {
public:
  explicit Elementwise(const CudaOpSite& site)
    : CudaOperator(site), size_(elements(site.output())) {}

protected:
  template <class F>
  void each(const OpArgs& args, const F& f) {
    launch_each(args.rows * size_, f, stream());
    launched();
  }
  /// Passes a gradient on: nothing to do where it is in its place already.
  void pass_on(const OpArgs& args, size_t i) {
    auto* to = args.input_gradients[i];
    if (to != nullptr && to != args.output_gradient)
      each(args,
           Pass{args.output_gradient, to, args.accumulate_inputs[i] != 0});
  }

  uint64_t size_; ///< of a sample
};

class Activate final : public Elementwise {
public:
  explicit Activate(const CudaOpSite& site)
    : Elementwise(site), kind_(site.op().attributes.activation) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = slope_reads_input(kind_);
    needs.backward_reads_output = !slope_reads_input(kind_);
    needs.in_place = !slope_reads_input(kind_);
    needs.accumulates = true;
    return needs;
  }
  void forward(const OpArgs& args) override {
    each(args, Sum{kind_, {args.inputs[0]}, 1, nullptr, args.output});
  }
  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      each(args,
           Slope{kind_, slope_reads_input(kind_) ? args.inputs[0] : args.output,
                 args.output_gradient, args.input_gradients[0],
                 args.accumulate_inputs[0] != 0});
  }

private:
  Activation kind_;
};

class Add final : public Elementwise {
public:
  explicit Add(const CudaOpSite& site)
    : Elementwise(site), kind_(site.op().attributes.activation) {}

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
    require(args.inputs.size() <= max_addends, "too many addends");
    Sum sum{kind_,
            {},
            static_cast<uint32_t>(args.inputs.size()),
            slope_reads_input(kind_) ? args.saved : nullptr,
            args.output};
    for (size_t i = 0; i < args.inputs.size(); ++i)
      sum.x[i] = args.inputs[i];
    each(args, sum);
  }
  void backward(const OpArgs& args) override {
    auto* d = args.output_gradient;
    if (kind_ != Activation::none)
      each(args,
           Slope{kind_, slope_reads_input(kind_) ? args.saved : args.output, d,
                 d, false});
    for (size_t i = 0; i < args.input_gradients.size(); ++i)
      pass_on(args, i);
  }

private:
  Activation kind_;
};

class Multiply final : public Elementwise {
public:
  using Elementwise::Elementwise;

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 3;
    needs.accumulates = true;
    return needs;
  }
  void forward(const OpArgs& args) override {
    each(args, Product{args.inputs[0], args.inputs[1], args.output, false});
  }
  void backward(const OpArgs& args) override {
    for (size_t i = 0; i < 2; ++i)
      if (args.input_gradients[i] != nullptr)
        each(args,
             Product{args.output_gradient, args.inputs[1 - i],
                     args.input_gradients[i], args.accumulate_inputs[i] != 0});
  }
};

class Gate final : public Elementwise {
public:
  explicit Gate(const CudaOpSite& site)
    : Elementwise(site),
      columns_(site.output().back()),
      half_input_(site.half_input(0)),
      half_output_(site.half_output()) {
    require(site.input(0).back() == 2 * columns_, "swiglu takes [..., 2 n]");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }
  void forward(const OpArgs& args) override {
    GateArgs gate{};
    gate.x = args.inputs[0];
    gate.y = args.output;
    run<Gated>(args, gate);
  }
  void backward(const OpArgs& args) override {
    GateArgs gate{};
    gate.x = args.inputs[0];
    gate.d = args.output_gradient;
    gate.gradient = args.input_gradients[0];
    gate.accumulate = args.accumulate_inputs[0] != 0;
    if (gate.gradient != nullptr)
      run<GateBack>(args, gate);
  }

private:
  template <template <class, class, uint32_t> class F>
  void run(const OpArgs& args, GateArgs gate) {
    gate.columns = columns_;
    with_types(half_input_, half_output_, [&]<class X, class Y>() {
      with_pack(columns_, [&]<uint32_t N>() {
        launch_each(args.rows * size_ / N, F<X, Y, N>{gate}, stream());
      });
    });
    launched();
  }

  uint64_t columns_; ///< of the output
  bool half_input_;
  bool half_output_;
};

class Bias final : public Elementwise {
public:
  explicit Bias(const CudaOpSite& site)
    : Elementwise(site), max_rows_(site.max_rows) {}

  Needs needs() const override {
    Needs needs;
    needs.scratch = {0, chunk_scratch(max_rows_, size_)};
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }
  void forward(const OpArgs& args) override {
    each(args, AddRow{args.inputs[0], args.parameters[0], args.output, size_});
  }
  void backward(const OpArgs& args) override {
    DeltaArgs delta;
    delta.d = args.output_gradient;
    delta.rows = args.rows;
    delta.columns = static_cast<uint32_t>(size_);
    delta.sums = args.parameter_gradients[0];
    delta.accumulate = args.accumulate_parameters[0] != 0;
    delta.scratch = args.scratch;
    delta_and_sums(delta, false, false, stream());
    launched();
    pass_on(args, 0);
  }

private:
  uint64_t max_rows_;
};

class Dropout final : public Elementwise {
public:
  explicit Dropout(const CudaOpSite& site)
    : Elementwise(site),
      stream_(site.op().stream.value_or(site.index)),
      threshold_(static_cast<uint64_t>(
        std::llround(double{site.op().attributes.rate} * 0x1p24))),
      scale_(1.0f / (1.0f - site.op().attributes.rate)) {
    require(site.op().attributes.rate >= 0 && site.op().attributes.rate < 1,
            "a dropout rate outside [0, 1)");
  }

  Needs needs() const override {
    Needs needs;
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }
  void forward(const OpArgs& args) override {
    if (args.training)
      mask(args, args.inputs[0], args.output, false);
    else if (args.inputs[0] != args.output)
      each(args, Pass{args.inputs[0], args.output, false});
  }
  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      mask(args, args.output_gradient, args.input_gradients[0],
           args.accumulate_inputs[0] != 0);
  }

private:
  void mask(const OpArgs& args, const float* x, float* y, bool accumulate) {
    each(args, Mask{x, y, args.key, stream_, threshold_, scale_, accumulate});
  }

  uint64_t stream_;
  uint64_t threshold_;
  float scale_;
};

} // namespace

OperatorPtr make_cuda_elementwise(const CudaOpSite& site) {
  switch (site.op().kind) {
    case OpKind::activation:
      return std::make_unique<Activate>(site);
    case OpKind::add:
      return std::make_unique<Add>(site);
    case OpKind::multiply:
      return std::make_unique<Multiply>(site);
    case OpKind::swiglu:
      return std::make_unique<Gate>(site);
    case OpKind::bias:
      return std::make_unique<Bias>(site);
    default:
      return std::make_unique<Dropout>(site);
  }
}

} // namespace troupe::kernels

#include "kernels/base/error.hpp"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"

namespace troupe::kernels {

namespace {

using namespace cuda;

/// Moves or adds runs of `length` elements that lie `from_step` and `to_step`
/// apart. Moves keep the bits, of int32 values too.
struct MoveRuns {
  const float* from;
  float* to;
  uint64_t length;
  uint64_t from_step;
  uint64_t to_step;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto run = i / length;
    const auto at = i % length;
    auto& target = to[run * to_step + at];
    const auto& source = from[run * from_step + at];
    target = accumulate ? target + source : source;
  }
};

/// The gradient of a slice: zeros beside it.
struct SpreadRuns {
  const float* from;
  float* to;
  uint64_t length; ///< of a run of the input
  uint64_t begin;
  uint64_t end;

  __device__ void operator()(uint64_t i) const {
    const auto run = i / length;
    const auto at = i % length;
    to[i] = at < begin || at >= end ? 0.0f
                                    : from[run * (end - begin) + at - begin];
  }
};

constexpr uint32_t max_extents = 8;

struct Permute {
  const float* from;
  float* to;
  bool back; ///< from the output's order to the input's
  bool accumulate;
  uint32_t extents_count;
  uint64_t extents[max_extents]; ///< of the output
  uint64_t steps[max_extents];   ///< of the input, for each of them
  uint64_t size;                 ///< of a sample

  __device__ void operator()(uint64_t i) const {
    auto left = i % size;
    auto at = i - left;
    for (auto e = extents_count; e-- > 0;) {
      at += left % extents[e] * steps[e];
      left /= extents[e];
    }
    const auto source = back ? i : at;
    const auto target = back ? at : i;
    to[target] = accumulate ? to[target] + from[source] : from[source];
  }
};

uint64_t outside(const Shape& shape, size_t axis) {
  return elements(Shape(shape.begin(), shape.begin() + axis));
}
uint64_t inside(const Shape& shape, size_t axis) {
  return elements(Shape(shape.begin() + axis, shape.end()));
}

class Concat final : public CudaOperator {
public:
  explicit Concat(const CudaOpSite& site)
    : CudaOperator(site),
      outside_(outside(site.output(), site.op().attributes.axis)),
      length_(inside(site.output(), site.op().attributes.axis)) {
    for (size_t i = 0; i < site.op().inputs.size(); ++i)
      lengths_.push_back(inside(site.input(i), site.op().attributes.axis));
  }

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    uint64_t begin = 0;
    for (size_t i = 0; i < lengths_.size(); begin += lengths_[i++])
      move(args, i,
           {args.inputs[i], args.output + begin, lengths_[i], lengths_[i],
            length_, false});
  }

  void backward(const OpArgs& args) override {
    uint64_t begin = 0;
    for (size_t i = 0; i < lengths_.size(); begin += lengths_[i++])
      if (args.input_gradients[i] != nullptr)
        move(args, i,
             {args.output_gradient + begin, args.input_gradients[i],
              lengths_[i], length_, lengths_[i],
              args.accumulate_inputs[i] != 0});
  }

private:
  void move(const OpArgs& args, size_t i, const MoveRuns& runs) {
    launch_each(args.rows * outside_ * lengths_[i], runs, stream());
    launched();
  }

  uint64_t outside_; ///< runs of a sample
  uint64_t length_;  ///< of a run of the output
  std::vector<uint64_t> lengths_;
};

class Slice final : public CudaOperator {
public:
  explicit Slice(const CudaOpSite& site) : CudaOperator(site) {
    const auto& attributes = site.op().attributes;
    const auto step = inside(site.input(0), attributes.axis + 1);
    outside_ = outside(site.input(0), attributes.axis);
    length_ = inside(site.input(0), attributes.axis);
    begin_ = attributes.begin * step;
    end_ = attributes.end * step;
  }

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto taken = end_ - begin_;
    launch_each(args.rows * outside_ * taken,
                MoveRuns{args.inputs[0] + begin_, args.output, taken, length_,
                         taken, false},
                stream());
    launched();
  }

  void backward(const OpArgs& args) override {
    auto* gradient = args.input_gradients[0];
    if (gradient == nullptr)
      return;
    const auto taken = end_ - begin_;
    if (args.accumulate_inputs[0])
      launch_each(args.rows * outside_ * taken,
                  MoveRuns{args.output_gradient, gradient + begin_, taken,
                           taken, length_, true},
                  stream());
    else
      launch_each(args.rows * outside_ * length_,
                  SpreadRuns{args.output_gradient, gradient, length_, begin_,
                             end_},
                  stream());
    launched();
  }

private:
  uint64_t outside_; ///< runs of a sample
  uint64_t length_;  ///< of a run of the input
  uint64_t begin_;
  uint64_t end_;
};

/// Another reading of the same memory, or a copy where the caller wants one.
class Reshape final : public CudaOperator {
public:
  explicit Reshape(const CudaOpSite& site)
    : CudaOperator(site), size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    needs.alias = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    if (args.output != args.inputs[0])
      move(args.inputs[0], args.output, args.rows, false);
  }

  void backward(const OpArgs& args) override {
    auto* gradient = args.input_gradients[0];
    if (gradient != nullptr && gradient != args.output_gradient)
      move(args.output_gradient, gradient, args.rows,
           args.accumulate_inputs[0] != 0);
  }

private:
  void move(const float* from, float* to, uint64_t rows, bool accumulate) {
    launch_each(rows * size_,
                MoveRuns{from, to, size_, size_, size_, accumulate}, stream());
    launched();
  }

  uint64_t size_; ///< of a sample
};

class Transpose final : public CudaOperator {
public:
  explicit Transpose(const CudaOpSite& site) : CudaOperator(site) {
    const auto& from = site.input(0);
    const auto& order = site.op().attributes.permutation;
    if (from.size() > max_extents)
      throw InputError("operator " + name_ + ": more than "
                       + std::to_string(max_extents)
                       + " extents; join some by a reshape");
    std::vector<uint64_t> steps(from.size(), 1);
    for (size_t i = from.size(); i-- > 1;)
      steps[i - 1] = steps[i] * from[i];
    permute_.extents_count = static_cast<uint32_t>(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      permute_.extents[i] = from[order[i]];
      permute_.steps[i] = steps[order[i]];
    }
    permute_.size = elements(from);
  }

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    run(args.inputs[0], args.output, args.rows, false, false);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      run(args.output_gradient, args.input_gradients[0], args.rows, true,
          args.accumulate_inputs[0] != 0);
  }

private:
  void run(const float* from, float* to, uint64_t rows, bool back,
           bool accumulate) {
    auto permute = permute_;
    permute.from = from;
    permute.to = to;
    permute.back = back;
    permute.accumulate = accumulate;
    launch_each(rows * permute.size, permute, stream());
    launched();
  }

  Permute permute_{};
};

} // namespace

OperatorPtr make_cuda_movement(const CudaOpSite& site) {
  switch (site.op().kind) {
    case OpKind::concat:
      return std::make_unique<Concat>(site);
    case OpKind::slice:
      return std::make_unique<Slice>(site);
    case OpKind::transpose:
      return std::make_unique<Transpose>(site);
    default:
      return std::make_unique<Reshape>(site);
  }
}

} // namespace troupe::kernels

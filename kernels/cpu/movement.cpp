#include "kernels/base/require.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

/// Moves or adds `runs` runs of `length` elements that lie `from_step` and
/// `to_step` apart. Moves keep the bits, of int32 values too.
struct Runs {
  size_t runs;
  size_t length;
  size_t from_step;
  size_t to_step;

  void move(const float* from, float* to, bool accumulate) const {
    for (size_t i = 0; i < runs; ++i, from += from_step, to += to_step)
      if (accumulate)
        loops().add(from, to, to, length);
      else
        std::memcpy(to, from, length * sizeof(float));
  }
};

/// Elements of the extents before an axis, and from it on.
size_t outside(const Shape& shape, size_t axis) {
  return elements(Shape(shape.begin(), shape.begin() + axis));
}
size_t inside(const Shape& shape, size_t axis) {
  return elements(Shape(shape.begin() + axis, shape.end()));
}

class Concat final : public Operator {
public:
  explicit Concat(const CpuOpSite& site)
    : outside_(outside(site.output(), site.op.attributes.axis)),
      length_(inside(site.output(), site.op.attributes.axis)) {
    for (size_t i = 0; i < site.op.inputs.size(); ++i)
      lengths_.push_back(inside(site.input(i), site.op.attributes.axis));
  }

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto* to = args.output;
    for (size_t i = 0; i < lengths_.size(); to += lengths_[i++])
      Runs{args.rows * outside_, lengths_[i], lengths_[i], length_}.move(
        args.inputs[i], to, false);
  }

  void backward(const OpArgs& args) override {
    const auto* from = args.output_gradient;
    for (size_t i = 0; i < lengths_.size(); from += lengths_[i++])
      if (args.input_gradients[i] != nullptr)
        Runs{args.rows * outside_, lengths_[i], length_, lengths_[i]}.move(
          from, args.input_gradients[i], args.accumulate_inputs[i]);
  }

private:
  size_t outside_; ///< runs of a sample
  size_t length_;  ///< of a run of the output
  std::vector<size_t> lengths_;
};

class Slice final : public Operator {
public:
  explicit Slice(const CpuOpSite& site) {
    const auto& attributes = site.op.attributes;
    const auto axis = attributes.axis;
    const auto step = inside(site.input(0), axis + 1);
    outside_ = outside(site.input(0), axis);
    length_ = inside(site.input(0), axis);
    begin_ = attributes.begin * step;
    end_ = attributes.end * step;
  }

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    Runs{args.rows * outside_, end_ - begin_, length_, end_ - begin_}.move(
      args.inputs[0] + begin_, args.output, false);
  }

  void backward(const OpArgs& args) override {
    auto* gradient = args.input_gradients[0];
    if (gradient == nullptr)
      return;
    if (!args.accumulate_inputs[0])
      for (size_t i = 0; i < args.rows * outside_; ++i) {
        auto* run = gradient + i * length_;
        std::fill(run, run + begin_, 0.0f);
        std::fill(run + end_, run + length_, 0.0f);
      }
    Runs{args.rows * outside_, end_ - begin_, end_ - begin_, length_}.move(
      args.output_gradient, gradient + begin_, args.accumulate_inputs[0]);
  }

private:
  size_t outside_; ///< runs of a sample
  size_t length_;  ///< of a run of the input
  size_t begin_;
  size_t end_;
};

/// A permutation of extents, the rows before them left alone: extents that
/// stay together are taken as one.
class Permutation {
public:
  Permutation(const Shape& from, const std::vector<uint32_t>& order) {
    std::vector<size_t> steps(from.size(), 1);
    for (size_t i = from.size(); i-- > 1;)
      steps[i - 1] = steps[i] * from[i];
    size_ = elements(from);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto extent = from[order[i]];
      if (extent == 1)
        continue;
      if (!extents_.empty() && steps_.back() == extent * steps[order[i]]) {
        extents_.back() *= extent;
        steps_.back() = steps[order[i]];
      } else {
        extents_.push_back(extent);
        steps_.push_back(steps[order[i]]);
      }
    }
  }

  size_t size() const { return size_; }

  void run(const float* from, float* to, bool accumulate) const {
    walk(0, from, to, accumulate);
  }

private:
  /// Returns where the output goes on.
  float* walk(size_t axis, const float* from, float* to,
              bool accumulate) const {
    const auto left = extents_.size() - axis;
    if (left == 0) {
      *to = accumulate ? *to + *from : *from;
      return to + 1;
    }
    if (left == 1 && steps_[axis] == 1) {
      Runs{1, extents_[axis], 0, 0}.move(from, to, accumulate);
      return to + extents_[axis];
    }
    if (left == 2 && steps_[axis] == 1)
      return turn(axis, from, to, accumulate);
    for (size_t i = 0; i < extents_[axis]; ++i, from += steps_[axis])
      to = walk(axis + 1, from, to, accumulate);
    return to;
  }

  /// The last two extents, of which the first lies together in the input: in
  /// tiles, so that the lines read and written stay in the cache.
  float* turn(size_t axis, const float* from, float* to,
              bool accumulate) const {
    constexpr size_t tile = 16;
    const auto rows = extents_[axis];
    const auto columns = extents_[axis + 1];
    const auto step = steps_[axis + 1];
    for (size_t i = 0; i < rows; i += tile)
      for (size_t k = 0; k < columns; k += tile)
        for (size_t r = i; r < std::min(i + tile, rows); ++r)
          for (size_t c = k; c < std::min(k + tile, columns); ++c) {
            auto& there = to[r * columns + c];
            const auto value = from[c * step + r];
            there = accumulate ? there + value : value;
          }
    return to + rows * columns;
  }

  size_t size_;
  std::vector<size_t> extents_; ///< of the output
  std::vector<size_t> steps_;   ///< in the input, of each of them
};

std::vector<uint32_t> inverse(const std::vector<uint32_t>& order) {
  std::vector<uint32_t> result(order.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    result[order[i]] = i;
  return result;
}

class Transpose final : public Operator {
public:
  explicit Transpose(const CpuOpSite& site)
    : there_(site.input(0), site.op.attributes.permutation),
      back_(site.output(), inverse(site.op.attributes.permutation)) {}

  Needs needs() const override {
    Needs needs;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    for (size_t row = 0; row < args.rows; ++row)
      there_.run(args.inputs[0] + row * there_.size(),
                 args.output + row * there_.size(), false);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    for (size_t row = 0; row < args.rows; ++row)
      back_.run(args.output_gradient + row * back_.size(),
                args.input_gradients[0] + row * back_.size(),
                args.accumulate_inputs[0]);
  }

private:
  Permutation there_;
  Permutation back_;
};

/// Another shape of the same memory. The engine runs neither pass; whoever
/// calls them gets a copy.
class Reshape final : public Operator {
public:
  explicit Reshape(const CpuOpSite& site) : size_(elements(site.output())) {}

  Needs needs() const override {
    Needs needs;
    needs.alias = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    if (args.output != args.inputs[0])
      std::memcpy(args.output, args.inputs[0],
                  args.rows * size_ * sizeof(float));
  }

  void backward(const OpArgs& args) override {
    auto* gradient = args.input_gradients[0];
    if (gradient != nullptr && gradient != args.output_gradient)
      Runs{1, args.rows * size_, 0, 0}.move(args.output_gradient, gradient,
                                            args.accumulate_inputs[0]);
  }

private:
  size_t size_;
};

} // namespace

OperatorPtr make_movement(const CpuOpSite& site) {
  switch (site.op.kind) {
    case OpKind::concat:
      return std::make_unique<Concat>(site);
    case OpKind::slice:
      return std::make_unique<Slice>(site);
    case OpKind::transpose:
      return std::make_unique<Transpose>(site);
    default:
      require(site.op.kind == OpKind::reshape, "a movement");
      return std::make_unique<Reshape>(site);
  }
}

} // namespace troupe::kernels

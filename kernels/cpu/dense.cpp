#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/leaf_stack.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/nonzero_matrix.hpp"
#include "kernels/cpu/operators.hpp"

namespace troupe::kernels {

namespace {

/// Up to which share of nonzero elements a product is NonzeroMatrix's (EPYC,
/// AVX-512; what is faster at 16, 64 and 256 rows). With few rows most time
/// goes into fetching the weight. They decide bits: the other products' chains
/// have blocks.
double max_nonzero_inputs(size_t rows) {
  return rows < 48 ? 0.3 : 0.65;
}
double max_nonzero_gradients(size_t) {
  return 0.65;
}

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
    needs.splits = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    const auto leaves = leaves_of(args);
    const auto* weight = args.parameters[0];
    sparse_ = take(elements_, leaves, args.inputs[0], inputs_, outputs_,
                   may_be_sparse_ ? &max_nonzero_inputs : nullptr);
    if (sparse_.all)
      elements_.multiply(args.inputs[0], Side::as_is, weight, outputs_,
                         args.output, false);
    else
      each(leaves, [&](const Part& part) {
        const auto* x = args.inputs[0] + part.first * inputs_;
        auto* y = args.output + part.first * outputs_;
        if (take_again(elements_, part, x, inputs_, outputs_, sparse_))
          elements_.multiply(x, Side::as_is, weight, outputs_, y, false);
        else
          products_.multiply(Side::as_is,
                             transposed_ ? Side::transposed : Side::as_is,
                             part.rows, outputs_, inputs_, x, weight, y);
      });
    if (!has_bias_ && kind_ == Activation::none)
      return;
    elementwise_loops().bias(
      kind_, {args.output, has_bias_ ? args.parameters[1] : nullptr,
              keeps_slope() && args.training ? args.saved : nullptr,
              args.output, rows, outputs_});
  }

  void backward(const OpArgs& args) override {
    const auto leaves = leaves_of(args);
    before_activation(args, leaves);
    if (args.half != BackwardHalf::inputs)
      weight_gradient(args, leaves);
    if (args.half != BackwardHalf::weights
        && args.input_gradients[0] != nullptr)
      give_back(args, leaves);
  }

private:
  /// The rows of a leaf among all.
  struct Part {
    size_t leaf;
    size_t first;
    size_t rows;
  };
  /// Which leaves' matrices are NonzeroMatrix's; it has taken all of them
  /// together, or the last one.
  struct Sparse {
    bool all = false;
    std::vector<uint8_t> leaves;
  };

  /// The slope is worked out along with the output where both take the same
  /// exponential: twice that takes 2 % more of a transformer's step.
  bool keeps_slope() const { return slope_reads_input(kind_); }

  /// Their rows are the products'.
  StackedLeaves leaves_of(const OpArgs& args) {
    leaves_.assign(args.leaves.begin(), args.leaves.end());
    if (leaves_.empty())
      leaves_.push_back({args.rows, 0, 0});
    for (auto& leaf : leaves_)
      leaf.rows *= static_cast<uint32_t>(repeats_);
    return leaves_;
  }

  template <class Run>
  void each(StackedLeaves leaves, const Run& run) const {
    Part part = {0, 0, 0};
    for (; part.leaf < leaves.size(); ++part.leaf) {
      part.rows = leaves[part.leaf].rows;
      run(part);
      part.first += part.rows;
    }
  }

  /// Decides leaf by leaf, as if each were alone. most: of nonzero elements, by
  /// a leaf's rows; null: none may be taken.
  Sparse take(NonzeroMatrix& matrix, StackedLeaves leaves, const float* a,
              size_t columns, size_t n, double (*most)(size_t)) const {
    Sparse sparse{most != nullptr, std::vector<uint8_t>(leaves.size(), 0)};
    size_t rows = 0;
    size_t found = 0;
    if (most != nullptr)
      each(leaves, [&](const Part& part) {
        const bool taken = matrix.take(a + part.first * columns, part.rows,
                                       columns, n, most(part.rows));
        sparse.leaves[part.leaf] = taken;
        sparse.all = sparse.all && taken;
        rows += part.rows;
        found += matrix.found();
      });
    if (sparse.all && leaves.size() > 1)
      matrix.join(rows, columns, found);
    return sparse;
  }

  /// Takes one leaf of several, if it was taken.
  static bool take_again(NonzeroMatrix& matrix, const Part& part,
                         const float* a, size_t columns, size_t n,
                         const Sparse& sparse) {
    return sparse.leaves[part.leaf]
           && matrix.take(a, part.rows, columns, n, 1.0);
  }

  /// Turns the gradient of the output into that of the product, in its place
  /// (the half for inputs), and sums it for the bias (the other). relu goes
  /// along with the sum.
  void before_activation(const OpArgs& args, StackedLeaves leaves) {
    const auto count = args.rows * repeats_ * outputs_;
    auto* delta = args.output_gradient;
    const bool gates = has_bias_ && kind_ == Activation::relu;
    if (args.half == BackwardHalf::weights) {
      // The other half has done it.
    } else if (keeps_slope()) {
      elementwise_loops().multiply(delta, args.saved, delta, count, false);
    } else if (kind_ != Activation::none && !gates) {
      elementwise_loops().slope(kind_,
                                {args.output, delta, delta, count, false});
    }
    if (!has_bias_)
      return;
    if (args.half == BackwardHalf::inputs) {
      if (gates) // and the sum is taken again in the other half
        loops().bias_backward({delta, outputs_, args.rows * repeats_, outputs_},
                              args.output, args.scratch);
      return;
    }
    const bool with_sum = gates && args.half == BackwardHalf::both;
    auto* gradient = args.parameter_gradients[1];
    const bool added = args.accumulate_parameters[1];
    LeafStack sums{added ? args.scratch : gradient, outputs_, spare_biases_};
    each(leaves, [&](const Part& part) {
      const auto at = part.first * outputs_;
      loops().bias_backward({delta + at, outputs_, part.rows, outputs_},
                            with_sum ? args.output + at : nullptr, sums.push());
      sums.merge(leaves[part.leaf].merges);
    });
    if (added)
      loops().add(args.scratch, gradient, gradient, outputs_);
  }

  void weight_gradient(const OpArgs& args, StackedLeaves leaves) {
    const auto* x = args.inputs[0];
    const auto* delta = args.output_gradient;
    auto* gradient = args.parameter_gradients[0];
    const bool added = args.accumulate_parameters[0];
    if (sparse_.all && leaves.size() > 1
        && args.rows * repeats_ <= TreeProduct::max_depth) {
      elements_.multiply_leaves(leaves, x, delta, outputs_, gradient);
      return;
    }
    LeafStack sums{gradient, inputs_ * outputs_, spare_weights_};
    each(leaves, [&](const Part& part) {
      leaf_weight_gradient(part, x + part.first * inputs_,
                           delta + part.first * outputs_, sums.push(), added,
                           leaves.size() == 1);
      sums.merge(leaves[part.leaf].merges);
    });
  }

  void leaf_weight_gradient(const Part& part, const float* x,
                            const float* delta, float* gradient, bool added,
                            bool alone) {
    const bool taken = alone ? sparse_.all
                             : take_again(elements_, part, x, inputs_, outputs_,
                                          sparse_);
    if (taken)
      elements_.multiply_transposed(x, delta, outputs_, gradient, added);
    else if (transposed_)
      products_.multiply(Side::transposed, Side::as_is, outputs_, inputs_,
                         part.rows, delta, x, gradient, added);
    else
      products_.multiply(Side::transposed, Side::as_is, inputs_, outputs_,
                         part.rows, x, delta, gradient, added);
  }

  /// Where relu gave zeros the product's gradient has some, too.
  void give_back(const OpArgs& args, StackedLeaves leaves) {
    const auto* delta = args.output_gradient;
    const auto* weight = args.parameters[0];
    auto* back = args.input_gradients[0];
    const bool added = args.accumulate_inputs[0];
    const bool may_be = kind_ == Activation::relu && may_be_sparse_;
    const auto sparse = take(gradients_, leaves, delta, outputs_, inputs_,
                             may_be ? &max_nonzero_gradients : nullptr);
    if (sparse.all) {
      gradients_.multiply(delta, Side::transposed, weight, inputs_, back,
                          added);
      return;
    }
    each(leaves, [&](const Part& part) {
      const auto* y = delta + part.first * outputs_;
      auto* to = back + part.first * inputs_;
      if (take_again(gradients_, part, y, outputs_, inputs_, sparse))
        gradients_.multiply(y, Side::transposed, weight, inputs_, to, added);
      else
        products_.multiply(Side::as_is,
                           transposed_ ? Side::as_is : Side::transposed,
                           part.rows, inputs_, outputs_, y, weight, to, added);
    });
  }

  Activation kind_;
  bool has_bias_;
  bool transposed_; ///< the weight lies [outputs, inputs]
  size_t inputs_;
  size_t outputs_;
  size_t repeats_; ///< vectors of a sample
  bool may_be_sparse_;
  std::vector<StackedLeaf> leaves_;
  Sparse sparse_; ///< of the last input
  NonzeroMatrix elements_;
  NonzeroMatrix gradients_; ///< of the product
  Multiplier products_;
  std::vector<Buffer> spare_biases_; ///< of leaves on the left
  std::vector<Buffer> spare_weights_;
};

} // namespace

OperatorPtr make_dense(const CpuOpSite& site) {
  return std::make_unique<Dense>(site);
}

} // namespace troupe::kernels

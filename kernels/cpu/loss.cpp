#include "kernels/base/require.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/row_loops.hpp"
#include "kernels/numbers/natural_log.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::kernels {

namespace {

/// Mean over the places of a sample that have a label, summed over the rows.
class SoftmaxCrossEntropy final : public Operator {
public:
  explicit SoftmaxCrossEntropy(const CpuOpSite& site)
    : classes_(site.input(0).back()),
      places_(elements(site.input(0)) / classes_),
      softmax_(places_ * site.max_rows) {}

  Needs needs() const override {
    Needs needs;
    needs.saved = {places_ * classes_, 0}; // probabilities
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto rows = args.rows * places_;
    auto* logits = const_cast<float*>(args.inputs[0]);
    loops().softmax({logits, classes_, rows, classes_}, args.saved,
                    softmax_.data());
    if (args.classes != nullptr)
      for (size_t row = 0; row < rows; ++row)
        args.classes[row] = static_cast<int32_t>(softmax_[row].best);
    if (args.labels == nullptr)
      return;
    LossTotals totals;
    for (size_t row = 0; row < rows; ++row) {
      auto label = static_cast<uint32_t>(args.labels[row]);
      require(label < classes_, "a label outside [0, classes)");
      const auto& result = softmax_[row];
      auto logit = logits[row * classes_ + label];
      totals.loss += natural_log(result.sum)
                     + (double{result.largest} - double{logit});
      totals.correct += result.best == label;
    }
    if (places_ > 1)
      totals.loss /= static_cast<double>(places_);
    *args.totals = totals;
  }

  void backward(const OpArgs& args) override {
    require(args.labels != nullptr, "a gradient without labels");
    const auto rows = args.rows * places_;
    auto* gradient = args.input_gradients[0];
    if (gradient == nullptr)
      return;
    row_loops().cross_entropy_back(
      {args.saved, args.labels, gradient, rows, classes_,
       1.0f / static_cast<float>(places_), args.accumulate_inputs[0] != 0});
  }

private:
  size_t classes_;
  size_t places_; ///< labels of a sample
  std::vector<SoftmaxRow> softmax_;
};

/// Of logits z and labels y: max(z, 0) - z y + log(1 + exp(-|z|)), which does
/// not overflow; mean over a sample's places, summed over the rows.
class SigmoidCrossEntropy final : public Operator {
public:
  explicit SigmoidCrossEntropy(const CpuOpSite& site)
    : places_(elements(site.input(0))) {}

  Needs needs() const override {
    Needs needs;
    needs.saved = {places_, 0};   // probabilities
    needs.scratch = {places_, 0}; // exp(-|z|), of the forward pass
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto count = args.rows * places_;
    const auto* z = args.inputs[0];
    elementwise_loops().bias(Activation::sigmoid,
                             {z, nullptr, nullptr, args.saved, 1, count});
    if (args.classes != nullptr)
      for (size_t i = 0; i < count; ++i)
        args.classes[i] = z[i] > 0;
    if (args.labels == nullptr)
      return;
    for (size_t i = 0; i < count; ++i)
      args.scratch[i] = -std::abs(z[i]);
    loops().exp_shifted(args.scratch, 0, args.scratch, count);
    LossTotals totals;
    for (size_t i = 0; i < count; ++i) {
      const auto label = args.labels[i];
      require(label == 0 || label == 1, "a label other than 0 and 1");
      totals.loss += std::max(double{z[i]}, 0.0) - double{z[i]} * label
                     + natural_log(1.0 + double{args.scratch[i]});
      totals.correct += (z[i] > 0) == (label == 1);
    }
    if (places_ > 1)
      totals.loss /= static_cast<double>(places_);
    *args.totals = totals;
  }

  void backward(const OpArgs& args) override {
    require(args.labels != nullptr, "a gradient without labels");
    auto* gradient = args.input_gradients[0];
    if (gradient == nullptr)
      return;
    const auto share = 1.0f / static_cast<float>(places_);
    for (size_t i = 0; i < args.rows * places_; ++i) {
      const auto value = (args.saved[i] - static_cast<float>(args.labels[i]))
                         * share;
      gradient[i] = args.accumulate_inputs[0] ? gradient[i] + value : value;
    }
  }

private:
  size_t places_; ///< labels of a sample
};

/// Mean over a sample's values of the squared distance to the targets, summed
/// over the rows.
class MeanSquaredError final : public Operator {
public:
  explicit MeanSquaredError(const CpuOpSite& site)
    : places_(elements(site.input(0))) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto count = args.rows * places_;
    const auto* x = args.inputs[0];
    if (args.targets == nullptr)
      return;
    LossTotals totals;
    for (size_t i = 0; i < count; ++i) {
      const auto off = double{x[i]} - double{args.targets[i]};
      totals.loss += off * off;
    }
    totals.loss /= static_cast<double>(places_);
    *args.totals = totals;
  }

  void backward(const OpArgs& args) override {
    require(args.targets != nullptr, "a gradient without targets");
    auto* gradient = args.input_gradients[0];
    if (gradient == nullptr)
      return;
    const auto share = 2.0f / static_cast<float>(places_);
    for (size_t i = 0; i < args.rows * places_; ++i) {
      const auto value = (args.inputs[0][i] - args.targets[i]) * share;
      gradient[i] = args.accumulate_inputs[0] ? gradient[i] + value : value;
    }
  }

private:
  size_t places_; ///< targets of a sample
};

} // namespace

OperatorPtr make_loss(const CpuOpSite& site) {
  switch (site.op.kind) {
    case OpKind::softmax_cross_entropy:
      return std::make_unique<SoftmaxCrossEntropy>(site);
    case OpKind::sigmoid_cross_entropy:
      return std::make_unique<SigmoidCrossEntropy>(site);
    default:
      require(site.op.kind == OpKind::mean_squared_error, "a loss");
      return std::make_unique<MeanSquaredError>(site);
  }
}

} // namespace troupe::kernels

#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/natural_log.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/error.hpp"
#include "kernels/require.hpp"

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
    const auto share = 1.0f / static_cast<float>(places_);
    for (size_t row = 0; row < rows; ++row) {
      const auto* p = args.saved + row * classes_;
      auto* to = gradient + row * classes_;
      for (size_t c = 0; c < classes_; ++c) {
        auto value = p[c] - (static_cast<int32_t>(c) == args.labels[row]);
        to[c] = places_ > 1 ? value * share : value;
      }
    }
  }

private:
  size_t classes_;
  size_t places_; ///< labels of a sample
  std::vector<SoftmaxRow> softmax_;
};

} // namespace

OperatorPtr make_loss(const CpuOpSite& site) {
  if (site.op.kind == OpKind::softmax_cross_entropy)
    return std::make_unique<SoftmaxCrossEntropy>(site);
  throw InputError("operator " + site.op.name + " is not available yet");
}

} // namespace troupe::kernels

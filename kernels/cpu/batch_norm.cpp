#include "kernels/base/require.hpp"
#include "kernels/cpu/batch_norm_loops.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::kernels {

namespace {

/// Statistics come from sums of x and x^2 in double: one pass over the values,
/// and one exchange where other replicas take part.
/// Source: Ioffe, Szegedy, Batch Normalization, 2015, algorithm 1; over all
/// replicas: Peng et al., MegDet, 2018.
class BatchNorm final : public Operator {
public:
  explicit BatchNorm(const CpuOpSite& site)
    : attributes_(site.op.attributes),
      channels_(site.input(0).back()),
      places_(elements(site.input(0)) / channels_),
      sums_(2 * channels_) {
    require(attributes_.activation == Activation::none
              || attributes_.activation == Activation::relu,
            "build_graph() gives other activations an operator of their own");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.saved = {0, 4 * channels_};
    needs.scratch = {0, 2 * channels_};
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    if (args.training)
      take_statistics(args);
    else
      for (size_t c = 0; c < channels_; ++c) {
        mean(args)[c] = args.parameters[2][c];
        inverse(args)[c] = inverse_of(double{args.parameters[3][c]});
      }
    batch_norm_loops().forward(terms(args), args.inputs[0], args.output);
  }

  void backward(const OpArgs& args) override {
    const auto& loops = batch_norm_loops();
    loops.gradient_sums(terms(args), args.inputs[0], args.output_gradient,
                        sums_.data());
    // Of these rows alone: the step adds the replicas' up.
    give(args, 1, sums_.data());
    give(args, 0, sums_.data() + channels_);
    for (size_t c = 0; c < channels_; ++c) {
      args.parameter_gradients[2][c] = statistic(args, 0)[c];
      args.parameter_gradients[3][c] = statistic(args, 1)[c];
    }
    if (args.input_gradients[0] == nullptr)
      return;
    const auto count = static_cast<double>(exchanged(args) * places_);
    for (size_t i = 0; i < 2 * channels_; ++i)
      args.scratch[i] = static_cast<float>(sums_[i] / count);
    loops.backward(terms(args), {args.scratch, args.scratch + channels_},
                   args.inputs[0], args.output_gradient,
                   args.input_gradients[0], args.accumulate_inputs[0]);
  }

private:
  float* mean(const OpArgs& args) const { return args.saved; }
  float* inverse(const OpArgs& args) const { return args.saved + channels_; }
  /// What the slots of the running mean (0) and variance (1) will get.
  float* statistic(const OpArgs& args, size_t which) const {
    return args.saved + (2 + which) * channels_;
  }

  float inverse_of(double variance) const {
    return static_cast<float>(
      1.0 / std::sqrt(variance + double{attributes_.epsilon}));
  }

  /// Returns the rows that sums_ stands for, after the exchange if there is
  /// one.
  uint64_t exchanged(const OpArgs& args) {
    if (attributes_.cross_replica && args.exchange != nullptr)
      return args.exchange->sum(sums_.data(), sums_.size(), args.rows);
    return args.rows;
  }

  void take_statistics(const OpArgs& args) {
    batch_norm_loops().sums(args.inputs[0], args.rows * places_, channels_,
                            sums_.data());
    const auto all = exchanged(args);
    const auto count = static_cast<double>(all * places_);
    const auto rows = static_cast<double>(args.rows);
    const auto share = variance_share(args, all, places_);
    for (size_t c = 0; c < channels_; ++c) {
      const auto mean_of_c = sums_[c] / count;
      const auto spread = sums_[channels_ + c] / count - mean_of_c * mean_of_c;
      // Rounding may lead below zero; a NaN stays.
      const auto variance = spread < 0 ? 0.0 : spread;
      mean(args)[c] = static_cast<float>(mean_of_c);
      inverse(args)[c] = inverse_of(variance);
      statistic(args, 0)[c] = static_cast<float>(rows * mean_of_c);
      // One value alone says nothing of a variance: the running one stays.
      statistic(args, 1)[c] =
        static_cast<float>(share > 0 ? count * variance * share
                                     : rows * double{args.parameters[3][c]});
    }
  }

  void give(const OpArgs& args, size_t parameter, const double* sums) const {
    auto* gradient = args.parameter_gradients[parameter];
    const bool add = args.accumulate_parameters[parameter];
    for (size_t c = 0; c < channels_; ++c) {
      const auto sum = static_cast<float>(sums[c]);
      gradient[c] = add ? gradient[c] + sum : sum;
    }
  }

  ChannelTerms terms(const OpArgs& args) const {
    return {args.rows * places_,
            channels_,
            mean(args),
            inverse(args),
            args.parameters[0],
            args.parameters[1],
            attributes_.activation == Activation::relu};
  }

  OpAttributes attributes_;
  size_t channels_;
  size_t places_; ///< vectors of channels in a sample
  std::vector<double> sums_;
};

} // namespace

OperatorPtr make_batch_norm(const CpuOpSite& site) {
  return std::make_unique<BatchNorm>(site);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/batch_norm_leaf.inc"
#define TABLE_TYPE BatchNormTable
#define TABLE_NAME batch_norm_loops
#define TABLE_ENTRIES sums, forward, gradient_sums, backward
#include "kernels/cpu/per_isa.inc"

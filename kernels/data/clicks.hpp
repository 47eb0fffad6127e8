#pragma once

#include "kernels/data/dataset.hpp"

#include <cstdint>

namespace troupe {

/// What clicks are drawn from.
struct ClicksOptions {
  uint64_t samples = 60'000;
  uint64_t seed = 0;
  uint64_t buckets = 1000; ///< categories of a field
  /// Every category of a field once in as many samples as it has, in scattered
  /// order, instead of few often: a table of all of them fills in one epoch.
  bool even = false;
};

/// Draws samples of criteo's shape: 13 features, 26 ids (category c of field f
/// is f * buckets + c, the lower c the more common, or all alike; one in 64 is
/// absent), a binary label. The probability of a 1 is the logistic function of
/// a sum that is the same whatever the seed: an effect of each of a field's
/// first 32 categories, slopes of the first six features, and six pairs of
/// fields whose categories agree or not, which no linear model sees. Sample i
/// is a pure function of (seed, i), in integer arithmetic.
Dataset synthetic_clicks(const ClicksOptions& options);

/// The area under the ROC curve that knowing the probabilities gives, in
/// expectation over labels: no model does better on these samples but by
/// chance.
double best_click_auc(const ClicksOptions& options);

/// The mean loss in nats of a model that knows the probabilities, in
/// expectation over labels.
double best_click_loss(const ClicksOptions& options);

} // namespace troupe

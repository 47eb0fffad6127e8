#include "kernels/data/standard_scale.hpp"

#include "kernels/base/error.hpp"

#include <cmath>
#include <vector>

namespace troupe {

void fit_standard_scale(Dataset& train, Dataset* eval) {
  const auto width = train.features();
  if (train.shape.features.empty() || !train.starts.empty())
    throw InputError(train.name
                     + ": has no features that scale=standard could "
                       "hold for; leave it out");
  const auto samples = train.samples();
  const auto count = static_cast<double>(samples);
  std::vector<double> mean(width);
  std::vector<double> squares(width);
  std::vector<float> row(width);
  for (uint64_t i = 0; i < samples; ++i) {
    train.raw_features(i, row.data());
    for (uint64_t k = 0; k < width; ++k)
      mean[k] += row[k];
  }
  for (auto& sum : mean)
    sum /= count;
  for (uint64_t i = 0; i < samples; ++i) {
    train.raw_features(i, row.data());
    for (uint64_t k = 0; k < width; ++k) {
      const auto away = row[k] - mean[k];
      squares[k] += away * away;
    }
  }
  train.mean.assign(mean.begin(), mean.end());
  train.inverse_deviation.resize(width);
  for (uint64_t k = 0; k < width; ++k) {
    const auto deviation = std::sqrt(squares[k] / count);
    const auto inverse = static_cast<float>(1 / deviation);
    // What rounding alone makes of equal values is no deviation.
    const bool constant = deviation <= 1e-12 * std::fabs(mean[k])
                          || !std::isfinite(inverse);
    train.inverse_deviation[k] = constant ? 0.0f : inverse;
  }
  if (eval != nullptr) {
    eval->mean = train.mean;
    eval->inverse_deviation = train.inverse_deviation;
  }
}

} // namespace troupe

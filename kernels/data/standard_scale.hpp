#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

/// Gives both parts the mean and deviation of each feature over the training
/// part: its features then have mean 0 and deviation 1; one that never changes
/// becomes 0. Sums are of float64 in the order of samples.
/// Errors: InputError when the data set has no features.
void fit_standard_scale(Dataset& train, Dataset* eval);

} // namespace troupe

#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// npy:FILE?labels=FILE, plain or .gz: arrays as NumPy saves them (format
// versions 1 to 3), C order, little-endian: float32, float64, integers of any
// width, bool. The first extent is that of samples. A plain file of float32 or
// uint8 is mapped, not copied; the rest becomes float32.
// Labels: integers become classes, floats numbers; task=regression makes
// numbers of integers too. Samples that are to be predicted need none: then
// labels are zeros that say nothing. scale=standard.

/// Errors: UsageError.
void check_npy(const DataSpec& spec);

/// Errors: UsageError where it names no labels, as for samples to predict.
void check_npy_labels(const DataSpec& spec);

/// Errors: InputError (not an array file, Fortran order, pickled objects, a
/// type that is none of the above, a size that is not the shape's, numbers of
/// samples that differ, values that are not finite float32).
Dataset read_npy(const DataSpec& spec, const ReadLimits& limits);

/// Fits classes to the training part.
void fit_npy(const DataSpec& spec, Dataset& train, Dataset* eval);

} // namespace troupe

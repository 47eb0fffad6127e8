#pragma once

#include "kernels/data/dataset.hpp"

#include <cstdint>

namespace troupe {

/// Draws `samples` labelled digits of 28 x 28 pixels: strokes with random
/// thickness, slant, scale, rotation, shift and noise. Sample i is a pure
/// function of (seed, i).
Dataset synthetic_digits(uint64_t samples, uint64_t seed);

} // namespace troupe

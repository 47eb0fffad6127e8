#pragma once

#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <vector>

namespace troupe::kernels {

/// Cosines and sines of the angles of places [0, length), by own functions, so
/// with the same bits on every machine. Shape: [length, 2, head / 2].
std::vector<float> rotary_turns(const OpAttributes& attributes, size_t head,
                                size_t length);

} // namespace troupe::kernels

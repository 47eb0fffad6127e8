#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <vector>

namespace troupe::kernels {

/// What a place holds: heads of queries and keys, which are turned, then those
/// of values.
struct RotaryShape {
  size_t turned; ///< heads
  size_t head;   ///< elements of one
  size_t stride; ///< elements of a place
  bool interleaved;
};

/// The shape of places [width] of an operator.
RotaryShape rotary_shape(const OpAttributes& attributes, size_t width);

/// Cosines and sines of the angles of places [0, length), by own functions, so
/// with the same bits on every machine. Shape: [length, 2, head / 2].
std::vector<float> rotary_turns(const OpAttributes& attributes, size_t head,
                                size_t length);

/// y (+)= x turned. Shapes: x and y [places, stride]; turns [places, head], of
/// these places.
struct RotaryArgs {
  const float* x;
  float* y; ///< may be x
  const float* turns;
  size_t places;
  bool back; ///< the other way, as gradients are
  bool accumulate;
};

/// The same bits on every instruction set.
struct RotaryTable {
  void (*turn)(const RotaryShape& shape, const RotaryArgs& args);
};

const RotaryTable& rotary_table(Isa isa);
const RotaryTable& rotary_table();

} // namespace troupe::kernels

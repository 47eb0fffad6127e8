#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>

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

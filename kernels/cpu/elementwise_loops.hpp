#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// y = activation(x + bias) of rows without gaps between them.
struct BiasArgs {
  const float* x;
  const float* bias; ///< [columns]; null: none
  float* slope;      ///< of the activation at x + bias; null: not wanted
  float* y;          ///< may be x
  size_t rows;
  size_t columns;
};

/// y = activation(sum of the inputs, in order).
struct AddArgs {
  const float* const* inputs;
  size_t inputs_count;
  float* sum; ///< goes there; null: nowhere
  float* y;   ///< may be an input
  size_t count;
};

/// gradient (+)= d times the slope of the activation.
struct SlopeArgs {
  const float* at; ///< output of the activation; input: slope_reads_input
  const float* d;
  float* gradient; ///< may be d
  size_t count;
  bool accumulate;
};

/// Rows [2 columns] to rows [columns]: silu of the first half times the second.
struct GateArgs {
  const float* x;
  float* y;
  size_t rows;
  size_t columns;
};

/// The gradient of x, (+)=.
struct GateBackArgs {
  const float* x;
  const float* d; ///< [rows, columns], of y
  float* gradient;
  size_t rows;
  size_t columns;
  bool accumulate;
};

/// y (+)= x where element e of the stream is kept, times scale, else 0.
struct DropoutArgs {
  const float* x;
  float* y; ///< may be x
  size_t count;
  uint64_t key;       ///< of the stream
  uint64_t threshold; ///< kept: random_bits(key, e) >> 40 >= threshold
  float scale;
  bool accumulate;
};

/// Own loops with the same bits on every instruction set, at any offset.
struct ElementwiseLoops {
  void (*bias)(Activation kind, const BiasArgs& args);
  void (*add)(Activation kind, const AddArgs& args);
  void (*slope)(Activation kind, const SlopeArgs& args);
  /// out (+)= a b
  void (*multiply)(const float* a, const float* b, float* out, size_t count,
                   bool accumulate);
  void (*dropout)(const DropoutArgs& args);
  void (*gate)(const GateArgs& args);
  void (*gate_back)(const GateBackArgs& args);
  /// Rounds to the nearest bfloat16, ties to even; a NaN stays one.
  void (*to_bfloat16)(const float* in, uint16_t* out, size_t count);
};

const ElementwiseLoops& elementwise_loops(Isa isa);
const ElementwiseLoops& elementwise_loops();

} // namespace troupe::kernels

#pragma once

#include "kernels/cpu/optimizer_loops.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <cuda_runtime.h>

namespace troupe::kernels::cuda {

/// What changes from step to step, read from device memory by a recorded step.
/// Pointers of the terms are not used.
struct StepTerms {
  UpdateTerms decayed;   ///< of parameters that weight decay holds for
  UpdateTerms undecayed; ///< of all others
  double samples;
  double clip_norm;
  uint32_t sequence; ///< of the updates, from 1
};

/// A run of one parameter that a block updates.
struct UpdateRun {
  enum class Kind : uint8_t { decayed, undecayed, statistic };
  uint64_t offset; ///< in the flat buffers
  uint32_t count;
  Kind kind;
  bool by_rows;   ///< may be updated lazily
  float momentum; ///< of a statistic
  uint32_t layer; ///< whose trust ratio it takes
};
constexpr uint32_t update_run = 2048; ///< elements at most

/// Elements whose squares make one sum: a block of norms.hpp.
struct SquareBlock {
  uint64_t offset; ///< in the flat buffers
  uint32_t count;
  bool decays;
  bool by_rows;
};

/// The blocks of one parameter; their sums are added along tree_sum()'s tree.
struct SquareTree {
  uint32_t first;
  uint32_t count;
};

/// The trees of what has one trust ratio: a trained parameter, or the pieces of
/// one that is cut into virtual slices. Of a statistic it has none.
struct RatioLayer {
  uint32_t first;
  uint32_t count;
};

/// What update_all() works on; all pointers are of the device.
struct DeviceUpdate {
  OptimizerKind rule;
  const StepTerms* terms;
  const UpdateRun* runs;
  uint32_t run_count;
  float* parameters;
  float* state;
  uint64_t stride; ///< elements of the flat buffers, a multiple of 4
  const SquareBlock* blocks;
  uint32_t block_count;
  const SquareTree* trees; ///< of trained parameters in order of name
  uint32_t tree_count;
  double* squares; ///< [block_count + tree_count]; scratch
  // LAMB's: trees once more, those of a layer one after the other.
  const SquareTree* pieces; ///< [tree_count]
  const RatioLayer* layers;
  uint32_t layer_count;
  double* directions;  ///< as squares
  float* ratios;       ///< [layer_count]
  float* scale;        ///< of the clipped gradient
  uint32_t* spoiled;   ///< the last update whose gradient was not finite
  bool has_statistics; ///< parameters whose squares are in no block
  const float* gradient = nullptr; ///< the sum
  bool clips = false;
  bool lazy = false; ///< of parameters by rows: where the gradient is 0
};

/// The update of all parameters, clipped where asked for; per element the
/// operations of kernels/cpu/optimizer_leaf.inc, one rounding each, and the
/// squares, LAMB's too, in the order of norms.hpp, so that equal gradients give
/// equal parameters. A gradient that is not finite changes nothing.
/// Completion: stream order; cudaGetLastError() has the launches' status.
void update_all(const DeviceUpdate& args, cudaStream_t stream);

/// Sets `found` where a value is not finite. Shapes: values [count], a multiple
/// of 4; found [1], zero before. Completion: likewise.
void find_not_finite(const float* values, uint64_t count, uint32_t* found,
                     cudaStream_t stream);

} // namespace troupe::kernels::cuda

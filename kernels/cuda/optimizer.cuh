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
};

/// A run of one parameter that a block updates.
struct UpdateRun {
  enum class Kind : uint8_t { decayed, undecayed, statistic };
  uint64_t offset; ///< in the flat buffers
  uint32_t count;
  Kind kind;
  float momentum; ///< of a statistic
};
constexpr uint32_t update_run = 4096; ///< elements at most

struct DeviceUpdate {
  OptimizerKind rule;
  const StepTerms* terms;
  const UpdateRun* runs;
  uint32_t run_count;
  float* parameters;
  float* gradient; ///< the sum
  float* state;
  uint64_t state_stride;
  double* squares; ///< [run_count]; scratch
  float* scale;    ///< of the clipped gradient
  bool clips;
};

/// The update of all parameters, clipped where asked for; per element the
/// operations of kernels/cpu/optimizer_leaf.inc, one rounding each, so that
/// equal gradients give equal parameters.
/// Completion: stream order; cudaGetLastError() has the launches' status.
void update_all(const DeviceUpdate& args, cudaStream_t stream);

} // namespace troupe::kernels::cuda

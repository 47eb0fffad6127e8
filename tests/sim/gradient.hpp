#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::sim {

/// What simulated workers compute instead of a model's gradient: a function of
/// the step, the virtual rank and the parameters.
enum class GradientKind : uint8_t {
  /// Sums of it depend on their order, and each update on all before it: any
  /// leaf that is missing, doubled, of another step or added elsewhere changes
  /// the last bits at least.
  ordered,
  /// Small integers, whatever the parameters are: updates commute, so the
  /// result tells which leaves have been applied, and how often, in any order.
  counted,
};

/// Element `i` of a leaf's gradient; `parameter` is what it is computed on.
float leaf_gradient(GradientKind kind, uint64_t step, uint32_t rank, uint64_t i,
                    float parameter);

/// Set before a world runs; workers read them.
extern GradientKind gradient_kind;
/// Is told of each computation before it begins, and of its process;
/// `parameters` are flat.
extern std::function<void(uint32_t process, uint64_t step,
                          const float* parameters)>
  on_compute;
/// Passes that were given up at a sum over all virtual ranks.
extern uint64_t abandoned_passes;

} // namespace troupe::sim

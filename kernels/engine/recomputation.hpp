#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/stages.hpp"

#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// What is not kept from a forward pass to the backward pass of a part whose
/// layers are computed again, some of them: what a layer's operators give and
/// save. What comes to a layer is kept, and so is what another such layer
/// reads, the sums of tensor members, and batch norms with statistics over all
/// virtual ranks. A layer runs forward again, as far as
/// it is needed, before the first backward pass that reads anything of it.
/// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016;
/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022, section 5, for some layers alone.
struct Recomputation {
  static constexpr uint32_t never = ~uint32_t{0};

  std::vector<uint8_t> drops;       ///< by value: as it was, or another's alias
  std::vector<uint8_t> drops_saved; ///< by operator
  /// By operator: before whose backward pass it runs again; never: it does not.
  std::vector<uint32_t> before;

  bool runs_again(uint64_t op) const { return before[op] != never; }
};

/// Shapes: needs [operators of the graph], of the part's own; layers the same:
/// the layer that an operator belongs to, from 1; 0: none that is computed
/// again.
Recomputation recompute(const Graph& graph, const GraphPart& part,
                        const std::vector<Needs>& needs,
                        const std::vector<uint32_t>& layers);

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/stages.hpp"

#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// Where each buffer of a step lies in one arena, in elements; buffers whose
/// lifetimes do not meet share memory. A pure function, so that lifetimes are
/// tested without a device. A part of a graph has places for what comes to it
/// of values and gradients as well, and keeps what goes until it is sent.
struct MemoryPlan {
  static constexpr uint64_t nowhere = ~uint64_t{0};

  /// nowhere: given by the batch, or no operator of the part has it
  std::vector<uint64_t> values;
  std::vector<uint64_t> gradients; ///< of values; nowhere: nobody asks
  std::vector<uint64_t> saved;     ///< per operator
  uint64_t scratch = 0;
  uint64_t spare = 0; ///< a gradient on its way to be added; see Needs
  uint64_t total = 0;
  /// Of that, what a micro-batch has from its forward pass on; the rest is of
  /// the pass in hand. All, unless layers are computed again.
  uint64_t held = 0;
  uint64_t unshared = 0; ///< what the same buffers take side by side
  /// Per operator: the backward pass is run; an alias passes its gradient on
  /// by memory alone, unless others add to it.
  std::vector<uint8_t> runs_backward;
  /// Per operator: those that run forward again before its backward pass,
  /// ascending.
  std::vector<std::vector<uint32_t>> again;

  static MemoryPlan make(const Graph& graph, const std::vector<Needs>& needs,
                         uint64_t max_rows);
  /// Of a part: needs of its operators, by their places in the whole graph.
  /// `splits` [operators]: whose backward pass comes in halves, so that what
  /// that for weights reads is kept until then; empty: none's. `layers`
  /// [operators]: those that are computed again, as recompute() has them;
  /// empty: none.
  static MemoryPlan make(const Graph& graph, const GraphPart& part,
                         const std::vector<Needs>& needs, uint64_t max_rows,
                         const std::vector<uint8_t>& splits = {},
                         const std::vector<uint32_t>& layers = {});
};

} // namespace troupe::kernels

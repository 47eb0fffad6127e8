#include "kernels/optimizer/norms.hpp"

#include "kernels/base/require.hpp"
#include "kernels/optimizer/terms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace troupe {

static_assert(norm_block == kernels::square_block);

size_t norm_blocks(uint64_t count) {
  return (count + norm_block - 1) / norm_block;
}

size_t first_norm_block(uint64_t offset) {
  kernels::require(offset % norm_block == 0,
                   "a slice starts in the middle of a block of the norm");
  return offset / norm_block;
}

void square_sum_blocks(const float* values, size_t count, double* blocks) {
  kernels::optimizer_loops().square_sums(values, count, blocks);
}

void lamb_square_sum_blocks(const OptimizerOptions& options,
                            const UpdateArgs& args, double* values,
                            double* directions) {
  kernels::require(options.kind == OptimizerKind::lamb,
                   "the norms of LAMB, for another rule");
  kernels::optimizer_loops().lamb_square_sums(
    kernels::update_terms(options, args), values, directions);
}

double tree_sum(std::span<const double> values) {
  if (values.size() <= 1)
    return values.empty() ? 0.0 : values[0];
  const auto left = std::bit_floor(values.size() - 1);
  return tree_sum(values.first(left)) + tree_sum(values.subspan(left));
}

std::vector<uint32_t> order_by_name(const Graph& graph) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    if (graph.parameters[i].role == ParameterRole::trained)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&graph](uint32_t a, uint32_t b) {
    return graph.parameters[a].name < graph.parameters[b].name;
  });
  return order;
}

double mean_norm(double square_sum, double samples) {
  return std::sqrt(square_sum) / samples;
}

float clip_scale(double norm, double limit) {
  return norm <= limit ? 1.0f : static_cast<float>(limit / (norm + 1e-6));
}

float trust_ratio(double value_squares, double direction_squares) {
  if (value_squares == 0 || direction_squares == 0)
    return 1.0f;
  return static_cast<float>(std::sqrt(value_squares)
                            / std::sqrt(direction_squares));
}

uint32_t scalar_rounds(OptimizerKind kind, bool clips) {
  return (clips ? 1u : 0u) + (kind == OptimizerKind::lamb ? 1u : 0u);
}

} // namespace troupe

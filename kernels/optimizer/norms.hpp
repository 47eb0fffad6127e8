#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Scalars over variables, for steps of several phases: clipping by the norm
/// of all gradients, LAMB's trust ratios. The owner of a slice sums squares
/// over blocks of its variables; a decider adds up the blocks of each variable
/// (tree_sum) and, for the norm of all, the variables' sums in order_by_name
/// (tree_sum again). Everything is in double and in a fixed order, so that the
/// scalars do not depend on slices, owners or instruction sets.

/// Elements of a variable that make one block. The last may be shorter.
constexpr size_t norm_block = 4096;

/// Number of blocks of so many elements.
size_t norm_blocks(uint64_t count);

/// The block that a slice starts with, by the element of its variable that it
/// starts at: a multiple of norm_block, asserted.
size_t first_norm_block(uint64_t offset);

/// blocks[b] = the sum of the squares of block b of the values.
/// Shapes: values [count], blocks [norm_blocks(count)].
void square_sum_blocks(const float* values, size_t count, double* blocks);

/// The same of a slice's values (args.in) and of the directions u that
/// LAMB's update will take with these arguments (gradient_scale included); u
/// is stored nowhere. `out`, `state_out` and `trust_ratio` are not used.
/// Shapes: values and directions [norm_blocks(args.count)].
void lamb_square_sum_blocks(const OptimizerOptions& options,
                            const UpdateArgs& args, double* values,
                            double* directions);

/// Sums along a fixed tree, which splits at the largest power of two below the
/// count. No values: 0.
double tree_sum(std::span<const double> values);

/// The trained parameters in order of name; running statistics have no
/// gradient.
std::vector<uint32_t> order_by_name(const Graph& graph);

/// The norm of the mean gradient, of the sum of squares of the summed one.
double mean_norm(double square_sum, double samples);

/// What a gradient of this norm is multiplied with: 1 up to the limit, else
/// limit / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_; NaN for NaN.
/// Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent
/// neural networks", ICML 2013, algorithm 1.
float clip_scale(double norm, double limit);

/// LAMB's ||p|| / ||u|| of a variable, from the sums of squares; 1 where
/// either is 0.
/// Source: You et al., ICLR 2020, algorithm 2.
float trust_ratio(double value_squares, double direction_squares);

/// Phases of a step before the update in which slices send block sums: one
/// for clipping, one more for LAMB, whose directions need the clipped gradient.
uint32_t scalar_rounds(OptimizerKind kind, bool clips);

} // namespace troupe

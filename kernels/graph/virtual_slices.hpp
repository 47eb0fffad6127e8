#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// Cuts pairs of dense layers into virtual slices: the first by columns (its
/// units), the second by rows (its inputs), with what lies between them slice
/// by slice: activations, dropout, swiglu, or attention and rotary before it,
/// which are cut by heads of keys, whose queries stay with them. The sums that
/// are cut by that, of the second layer's products and of the
/// gradient of the first one's input, are added along the fixed tree over the
/// slices; so their bits depend on how many there are, and not on who computes
/// which.
///
///     x -+- alias [0] - dense [0] - gelu - dense [0] -+- add - y
///        +- alias [1] - dense [1] - gelu - dense [1] -+
///
/// Each slice has a part of the parameters of its own; the second layer's bias
/// is that of slice 0. Layers without a partner stay whole, as do those that
/// share a parameter or have fewer units, or heads of keys, than there are
/// slices.
/// With one slice, or no such pair, the graph stays as it is.
/// Source: Shoeybi et al., "Megatron-LM", 2019, section 3.
Graph cut_into_slices(const Graph& graph, uint32_t slices);

/// The children of a node of two slices or more.
std::pair<SliceNode, SliceNode> children(SliceNode node);

/// The parameters as models, files and hashes know them.
const std::vector<Parameter>& whole_parameters(const Graph& graph);
/// The parameters that a whole one is cut into, in the order of slices.
std::vector<uint32_t> pieces_of(const Graph& graph, uint32_t whole);
/// Which whole parameter one is of.
uint32_t whole_of(const Graph& graph, uint32_t parameter);

/// Says where elements [offset, offset + count) of a parameter are in the whole
/// one, run by run in order: `run(at, in_whole, elements)`, `at` counted from
/// `offset`.
void for_runs(const Graph& graph, uint32_t parameter, uint64_t offset,
              uint64_t count,
              const std::function<void(uint64_t at, uint64_t in_whole,
                                       uint64_t elements)>& run);
/// Copies elements from `offset` on of a parameter to their places in the whole
/// one, or from there. Shapes: values [count], whole [its size].
void put_piece(const Graph& graph, uint32_t parameter, uint64_t offset,
               std::span<const float> values, float* whole);
void take_piece(const Graph& graph, uint32_t parameter, uint64_t offset,
                const float* whole, std::span<float> values);

} // namespace troupe

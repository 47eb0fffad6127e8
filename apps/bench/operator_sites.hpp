#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// An operator at a shape, without its memory.
struct OperatorSite {
  OpKind kind = OpKind::dense;
  const char* name = "";
  OpAttributes attributes;
  uint32_t rows = 1;
  Shape input; ///< without the rows
  bool ids = false;
  std::vector<Shape> parameters;
  Shape output;
  double flops = 0; ///< of the forward pass; the backward pass takes twice that
  size_t forward_bytes = 0;
  size_t backward_bytes = 0;
  std::string shape;
  /// Element `at` of the output, in float64.
  double (*reference)(const OperatorSite& site, const kernels::OpArgs& args,
                      size_t at) = nullptr;
};

/// Operators as the models have them, with plain references.
namespace sites {

OperatorSite dense(uint32_t rows, const Shape& input, uint64_t units,
                   Activation activation);
/// A square image, padded so that each place is a window's middle; with relu.
OperatorSite conv(uint32_t rows, uint64_t side, uint64_t channels,
                  uint64_t units, uint32_t stride, uint32_t kernel = 3,
                  uint32_t groups = 1);
/// layer_norm or softmax.
OperatorSite by_rows(OpKind kind, const char* name, uint32_t rows,
                     const Shape& input);
OperatorSite attention(uint32_t rows, uint64_t length, uint64_t d,
                       uint32_t heads);
OperatorSite embedding(uint32_t rows, uint64_t ids, uint64_t width,
                       uint64_t vocabulary);

} // namespace sites

} // namespace troupe

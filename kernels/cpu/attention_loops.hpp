#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Attention over one sample. x: [length, 3 width], query, key and value side
/// by side; y: [length, width].
struct AttentionShape {
  size_t length;
  size_t width;
  size_t heads;
  bool causal;
  float scale; ///< of the products of queries and keys

  size_t head() const { return width / heads; }
};

struct AttentionForward {
  const float* x;
  float* y;
  /// Per head, [2, length]: the largest scaled product of each query, and
  /// 1 / the sum of exp(product - largest).
  float* saved;
  float* scratch;
};

struct AttentionBackward {
  const float* x;
  const float* y;
  const float* y_gradient;
  const float* saved;
  float* x_gradient;
  bool add; ///< to x_gradient, rather than overwrite it
  float* scratch;
};

/// The kernels compiled for one instruction set; as products of matrices,
/// their bits differ between sets.
struct AttentionTable {
  void (*forward)(const AttentionShape& shape, const AttentionForward& to);
  void (*backward)(const AttentionShape& shape, const AttentionBackward& to);
};

/// Elements of scratch that either pass takes.
size_t attention_scratch(const AttentionShape& shape);

const AttentionTable& attention_table(Isa isa);
const AttentionTable& attention_table();

} // namespace troupe::kernels

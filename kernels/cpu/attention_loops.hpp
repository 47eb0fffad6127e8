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

/// y = softmax(scale query key^T) value, head by head; causal: a query sees the
/// keys up to its own place. Shapes: as above; scratch [attention_scratch()].
struct AttentionForward {
  const float* x;
  float* y;
  /// Per head, [2, length]: the largest scaled product of each query, and
  /// 1 / the sum of exp(product - largest).
  float* saved;
  float* scratch;
};

/// Gradients of the above: products are computed again from `saved`.
/// Shapes: those of x and y.
struct AttentionBackward {
  const float* x;
  const float* y;
  const float* y_gradient;
  const float* saved;
  float* x_gradient;
  bool add; ///< to x_gradient, rather than overwrite it
  float* scratch;
};

/// The kernels compiled for one instruction set. Those that have fused
/// multiplications and additions give the same bits.
/// Source: Dao et al., "FlashAttention: Fast and Memory-Efficient Exact
/// Attention with IO-Awareness", 2022; the running softmax is that of Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018.
struct AttentionTable {
  void (*forward)(const AttentionShape& shape, const AttentionForward& to);
  void (*backward)(const AttentionShape& shape, const AttentionBackward& to);
};

/// Elements of scratch that either pass takes.
size_t attention_scratch(const AttentionShape& shape);

const AttentionTable& attention_table(Isa isa);
const AttentionTable& attention_table();

} // namespace troupe::kernels

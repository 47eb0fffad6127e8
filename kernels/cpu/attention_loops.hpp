#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Attention over one sample. x: [length, width + 2 key_width()], query, key
/// and value side by side; y: [length, width].
struct AttentionShape {
  size_t length;
  size_t width; ///< of queries
  size_t heads;
  size_t key_heads; ///< of keys, and of values; it divides heads
  bool causal;
  float scale; ///< of the products of queries and keys

  size_t head() const { return width / heads; }
  size_t key_width() const { return key_heads * head(); }
  size_t stride() const { return width + 2 * key_width(); }
  size_t sharers() const { return heads / key_heads; } ///< of a key's head
};

/// The shape of an operator that gives [length, width].
AttentionShape attention_shape(const OpAttributes& attributes,
                               const Shape& output);

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

/// One more place of a sample that is read place by place: what attention
/// gives there, with the bits of AttentionForward over the places so far.
struct AttentionStep {
  const float* x; ///< [width + 2 key_width()], of this place
  float* y;       ///< [width]
  size_t place;   ///< below shape.length
  /// Keys and values of the places before; those of this one are added.
  /// Shapes: key_cache_size() and value_cache_size(), zeros at first.
  float* keys;
  float* values;
  float* scratch; ///< [attention_scratch()]
};

/// The kernels compiled for one instruction set. Those that have fused
/// multiplications and additions give the same bits.
/// Source: Dao et al., "FlashAttention: Fast and Memory-Efficient Exact
/// Attention with IO-Awareness", 2022; the running softmax is that of Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018.
struct AttentionTable {
  void (*forward)(const AttentionShape& shape, const AttentionForward& to);
  void (*backward)(const AttentionShape& shape, const AttentionBackward& to);
  /// Of causal attention.
  void (*step)(const AttentionShape& shape, const AttentionStep& to);
};

/// Elements of scratch that either pass takes.
size_t attention_scratch(const AttentionShape& shape);

/// Elements that the caches of AttentionStep have: keys as the kernels pack
/// them, [key_heads, blocks, head, block], values [key_heads, length rounded up
/// to blocks, head rounded up to 16].
size_t key_cache_size(const AttentionShape& shape);
size_t value_cache_size(const AttentionShape& shape);

const AttentionTable& attention_table(Isa isa);
const AttentionTable& attention_table();

} // namespace troupe::kernels

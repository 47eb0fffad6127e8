#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Loops over vectors of `width` floats: embeddings, interactions. Equal bits
/// on every instruction set: products and sums round one by one; dot products
/// are 16 partial sums by index modulo 16, added in one order.
struct InteractionLoops {
  /// to += factor from; a factor of 1 leaves the bits of from.
  void (*add_scaled)(const float* from, float factor, float* to, size_t width);
  /// to = factor to.
  void (*scale)(float* to, float factor, size_t width);
  float (*dot)(const float* a, const float* b, size_t width);

  /// x [n, width] -> y [n (n - 1) / 2]: dot products of the pairs i > j.
  /// Source: Naumov et al., "Deep Learning Recommendation Model for
  /// Personalization and Recommendation Systems", 2019.
  void (*interact)(const float* x, size_t n, size_t width, float* y);
  /// dx [n, width] from dy of interact; added where `add`.
  void (*interact_back)(const float* x, const float* dy, size_t n, size_t width,
                        float* dx, bool add);

  /// x [n, width] -> half of the sum over width of (sum_n x)^2 - sum_n x^2.
  /// Source: Rendle, "Factorization Machines", ICDM 2010, lemma 3.1.
  float (*factorize)(const float* x, size_t n, size_t width);
  /// dx [n, width] = dy (sum_n x - x), added where `add`.
  void (*factorize_back)(const float* x, float dy, size_t n, size_t width,
                         float* dx, bool add);
};

const InteractionLoops& interaction_loops(Isa isa);
const InteractionLoops& interaction_loops();

} // namespace troupe::kernels

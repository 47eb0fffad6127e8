#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>

namespace troupe::kernels {

/// What a batch norm's loops know of each channel. Values are [positions,
/// channels]; the normal value of x is n = (x - mean) inverse, the output
/// n scale + shift, then max(., 0) if `relu`.
struct ChannelTerms {
  size_t positions;
  size_t channels;
  const float* mean;
  const float* inverse; ///< 1 / sqrt(variance + epsilon)
  const float* scale;
  const float* shift;
  bool relu;
};

/// Of the gradient that arrives: its mean per channel, and the mean of its
/// products with the normal values.
struct GradientMeans {
  const float* gradient;
  const float* projection;
};

/// The loops of batch norm, with the same bits on each instruction set: sums
/// are taken per channel in the order of positions, in double.
/// Source: Ioffe and Szegedy, "Batch Normalization", 2015, algorithm 1.
struct BatchNormTable {
  /// sums [2, channels]: of x and of x^2.
  void (*sums)(const float* x, size_t positions, size_t channels, double* sums);
  void (*forward)(const ChannelTerms& t, const float* x, float* y);
  /// sums [2, channels]: of the gradient before the activation, and of its
  /// products with the normal values.
  void (*gradient_sums)(const ChannelTerms& t, const float* x, const float* dy,
                        double* sums);
  /// dx = scale inverse (d - mean of d - n projection); added to what is there
  /// where `add`.
  void (*backward)(const ChannelTerms& t, const GradientMeans& means,
                   const float* x, const float* dy, float* dx, bool add);
};

const BatchNormTable& batch_norm_loops(Isa isa);
const BatchNormTable& batch_norm_loops();

} // namespace troupe::kernels

#pragma once

#include "kernels/graph/graph.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>

namespace troupe::kernels::cuda {

/// Rows that are added up before their sums are added: fixed by the shape, so
/// that bits repeat. Few are one chunk, so that nothing is to be added.
inline uint32_t row_chunks(uint64_t rows) {
  const auto wanted = (rows + 31) / 32;
  return static_cast<uint32_t>(wanted <= 8 ? 1 : wanted < 256 ? wanted : 256);
}

/// Elements of scratch that sums over so many rows take.
inline uint64_t chunk_scratch(uint64_t rows, uint64_t columns) {
  return row_chunks(rows) * columns;
}

/// A gradient [rows, columns] on its way through an activation and the bias
/// before it.
struct DeltaArgs {
  const void* d = nullptr;  ///< gradient of the activation's output
  const void* at = nullptr; ///< what activate_back wants; null: none
  void* out = nullptr;      ///< where the delta goes; null: nowhere. May be d
  Activation activation = Activation::none;
  uint64_t rows = 0;
  uint32_t columns = 0;
  float* sums = nullptr;    ///< [columns], over the rows; null: not wanted
  bool accumulate = false;  ///< of the sums
  float* scratch = nullptr; ///< chunk_scratch(rows, columns)
};

/// d and `at` are float32, or both bfloat16; so is the delta.
/// Completion: stream order; cudaGetLastError() has the launch's status.
void delta_and_sums(const DeltaArgs& args, bool half_d, bool half_out,
                    cudaStream_t stream);

/// Where sums of columns go.
struct ColumnSums {
  float* sums;     ///< [columns]; null: nowhere
  bool accumulate; ///< added to what is there
};

/// to[t] (+)= chunk_sums[0, t] + chunk_sums[1, t] + … of [chunks, to.size(),
/// columns]; one or two are summed.
void add_chunks(const float* chunk_sums, uint32_t chunks, uint32_t columns,
                std::initializer_list<ColumnSums> to, cudaStream_t stream);

/// out = bfloat16(in)
void round_to_half(const float* in, void* out, uint64_t count,
                   cudaStream_t stream);

/// y = activation(z + bias) of [rows, columns]; bias, of y's type, may be null.
/// z and y may be the same.
void bias_activation(Activation activation, const void* z, const void* bias,
                     void* y, uint64_t rows, uint32_t columns, bool half,
                     cudaStream_t stream);

} // namespace troupe::kernels::cuda

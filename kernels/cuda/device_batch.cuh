#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/engine/engine.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"

namespace troupe::kernels {

/// Where a micro-batch lies on the device, always at the same place, and the
/// pinned memory it passes through.
class DeviceBatch {
public:
  DeviceBatch(const Graph& graph, uint32_t max_rows, CudaContext& context);

  /// Copies a micro-batch to the device. The memory that the call before passed
  /// it through must be free: its work has been waited for.
  /// Completion: stream order.
  void upload(const Batch& batch);

  /// A pass over what lies there, with classes where they are wanted.
  Engine::Pass pass(const Batch& batch, const Predictions& predictions) const;

  /// Begins to fetch what a pass left. Completion: stream order.
  void download(const Engine::Pass& pass);
  /// What download() fetched, once the stream has been waited for.
  LossTotals take(const Engine::Pass& pass,
                  const Predictions& predictions) const;

private:
  /// A run on the device with its twin on the host.
  template <class T>
  struct Mirror {
    uint64_t row = 0; ///< elements
    T* device = nullptr;
    T* host = nullptr;
  };
  template <class T>
  void place(Mirror<T>& mirror, uint64_t row, uint64_t count);
  template <class T>
  void send(const Mirror<T>& mirror, const T* from, uint64_t count);
  template <class T>
  void fetch(const Mirror<T>& mirror, uint64_t count);

  CudaContext& context_;
  uint64_t bytes_ = 0; ///< placed so far
  CudaArray<char> device_;
  CudaArray<char> host_;
  Mirror<float> features_;
  Mirror<int32_t> ids_;
  Mirror<int32_t> labels_;
  Mirror<float> targets_;
  Mirror<uint64_t> key_;
  Mirror<LossTotals> totals_;
  Mirror<int32_t> classes_;
};

} // namespace troupe::kernels

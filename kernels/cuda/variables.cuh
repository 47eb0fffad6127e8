#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/cuda/optimizer.cuh"
#include "kernels/graph/graph.hpp"
#include "kernels/optimizer/resident_replica.hpp"

namespace troupe::kernels {

/// A graph's parameters and their optimizer's state in a device's memory.
/// Calls with the device current; they go to the context's stream in order.
class DeviceVariables {
public:
  DeviceVariables(const Graph& graph, const OptimizerOptions& rule,
                  CudaContext& context);
  DeviceVariables(const DeviceVariables&) = delete;
  DeviceVariables& operator=(const DeviceVariables&) = delete;
  ~DeviceVariables();

  float* parameters() { return parameters_.data(); }
  uint64_t total() const { return layout_.total; }
  uint32_t slots() const { return state_slots(rule_.kind); }

  /// Shapes: parameters [total()], gaps included; state [slots()] of these,
  /// each `stride` elements after the one before; null: zeros, or not wanted.
  /// Completion: when the call returns.
  void write(const float* parameters, const float* state, uint64_t stride);
  void read(float* parameters, float* state, uint64_t stride);

  /// Sends what an update reads, besides the gradient, of its step.
  void send(const ResidentReplica::Update& update);
  /// Updates by a gradient's sum, unless that is not finite; may be recorded,
  /// as long as `clips` and `lazy` are the same.
  void update(const float* gradient, bool clips, bool lazy);
  /// Whether the last update found its gradient not finite. Waits for it.
  bool spoiled();

  /// Begins to look whether values [total()] are finite; are_finite() says so
  /// once the stream has been waited for.
  void examine(const float* values);
  bool are_finite() { return *host_found_.data() == 0; }

private:
  template <class T>
  CudaArray<T> on_device(size_t count, const char* what);
  template <class T>
  CudaArray<T> sent(const std::vector<T>& values);
  CudaPlace place() { return context_.place("update"); }
  cudaStream_t stream() { return context_.stream(); }

  Layout layout_;
  OptimizerOptions rule_;
  CudaContext& context_;
  CudaArray<float> parameters_;
  CudaArray<float> state_;
  CudaArray<cuda::StepTerms> terms_;
  CudaArray<cuda::StepTerms> host_terms_;
  CudaArray<cuda::UpdateRun> runs_;
  CudaArray<cuda::SquareBlock> blocks_;
  CudaArray<cuda::SquareTree> trees_;
  CudaArray<double> squares_;          ///< of blocks, then of trees
  CudaArray<cuda::SquareTree> pieces_; ///< LAMB's, as those that follow
  CudaArray<cuda::RatioLayer> layers_;
  CudaArray<double> directions_; ///< as squares_
  CudaArray<float> ratios_;
  CudaArray<float> scale_;
  CudaArray<uint32_t> spoiled_;
  CudaArray<uint32_t> host_spoiled_;
  CudaArray<uint32_t> found_; ///< a value that is not finite
  CudaArray<uint32_t> host_found_;
  cuda::DeviceUpdate update_;
  uint32_t sequence_ = 0;
  cudaEvent_t terms_sent_ = nullptr;
};

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/engine.hpp"
#include "kernels/engine/replica.hpp"

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// What the passes of a stage ask of where they run, besides a Device: how what
/// lies in the host's memory comes there, and back. Used by one thread at a
/// time. Completion: CUDA: in the order of the stream, of all that it is told
/// to bring when end() returns; what a Device's calls wait for, it says.
class StageDevice {
public:
  virtual ~StageDevice() = default;
  virtual Device& device() = 0;

  /// First thing of each call that computes, on its thread.
  virtual void enter() = 0;
  /// A training pass over a slot's micro-batch, which must outlive it, without
  /// its parameters.
  virtual Engine::Pass take_batch(uint32_t slot, const Batch& batch) = 0;
  /// Where the device has parameters, flat as the host's are. `as_before`: with
  /// the values of the call before, wherever they lie now.
  virtual const float* take_parameters(const float* parameters,
                                       bool as_before) = 0;
  /// Where a pass writes the host's gradient of the parameters, flat as that;
  /// its own until it is given back.
  virtual float* take_gradient(float* gradient) = 0;
  virtual void give_back(float* gradient) = 0;
  /// What a pass that has ended left of its slot's loss.
  virtual LossTotals totals(uint32_t slot) = 0;

  virtual void send(const float* from, float* to, uint64_t count) = 0;
  virtual void fetch(const float* from, float* to, uint64_t count) = 0;
  /// The same of a value of the graph, or of its gradient.
  virtual void send_value(uint32_t value, const float* from, float* to,
                          uint64_t count) = 0;
  virtual void fetch_value(uint32_t value, const float* from, float* to,
                           uint64_t count) = 0;
  /// Where the host reads a partial sum, and writes what take_back() brings to
  /// its place.
  virtual std::span<float> show(float* sum, uint64_t count) = 0;
  virtual void take_back() = 0;

  /// Last thing of a call.
  virtual void end() = 0;
};

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/engine.hpp"
#include "kernels/engine/replica.hpp"

namespace troupe::kernels {

/// What the engine takes of a micro-batch in the host's memory, on the thread
/// that will compute it. The batch must outlive the pass.
inline Engine::Pass cpu_pass(const float* parameters, const Batch& batch) {
  prepare_compute_thread();
  Engine::Pass pass;
  pass.rows = batch.rows;
  pass.parameters = parameters;
  pass.features = batch.features;
  pass.ids = batch.ids;
  pass.labels = batch.labels;
  pass.targets = batch.targets;
  pass.key = &batch.key;
  pass.exchange = batch.exchange;
  pass.gate = batch.gate;
  pass.step = batch.step;
  return pass;
}

} // namespace troupe::kernels

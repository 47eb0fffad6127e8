#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/resident_replica.hpp"

#include <memory>

namespace troupe {

/// Training by one device whose memory holds parameters and optimizer state:
/// what a step costs without the host's part. On CUDA the whole step, from the
/// forward pass to the update, is one CUDA graph.
class ResidentTrainer {
public:
  virtual ~ResidentTrainer() = default;

  /// Sets the parameters, flat by Layout(graph); the state becomes zero.
  virtual void set_parameters(const float* parameters) = 0;

  /// Takes the micro-batch that steps are made with until the next call.
  /// Completion: its memory may be changed when the call returns.
  virtual void load(const Batch& batch) = 0;

  using Step = ResidentReplica::Update;
  /// Forward, backward, clipping and update; CUDA: a gradient that is not
  /// finite changes nothing. Completion: CPU: when the call returns; CUDA: in
  /// order, waited for by the calls below.
  virtual void step(const Step& step) = 0;

  /// Loss and hits of the last step, of its parameters before the update.
  virtual LeafStats stats() = 0;
  virtual void read_parameters(float* out) = 0;
};

/// Errors: as make_replica.
std::unique_ptr<ResidentTrainer>
make_resident_trainer(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision = Precision::float32);

} // namespace troupe

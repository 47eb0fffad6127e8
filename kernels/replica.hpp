#pragma once

#include "kernels/graph.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// A micro-batch. Shapes: features [rows, graph.features] float32 row-major,
/// labels [rows] in [0, classes).
struct Batch {
  const float* features = nullptr;
  const int32_t* labels = nullptr;
  uint32_t rows = 0;
};

struct LeafStats {
  double loss_sum = 0;  ///< nats, summed over the rows in row order
  uint64_t correct = 0; ///< rows whose largest logit is the label's
};

/// One copy of a graph's working memory on one device: computes losses,
/// gradients and predictions of micro-batches. Used by one thread at a time.
/// The bits depend on the graph, the parameters and the batch (its number of
/// rows included) alone: not on the thread, the address or earlier calls.
class Replica {
public:
  virtual ~Replica() = default;

  /// Computes the sum (not the mean) over the rows of per-sample gradients.
  /// Shapes: parameters and gradient are flat buffers of Layout(graph).total
  /// elements, 64-byte aligned; gaps of the gradient are left alone.
  /// Completion: the gradient is written when the call returns.
  /// Errors: rows above max_rows or 0 is a bug and asserts.
  virtual LeafStats gradient(const float* parameters, Batch batch,
                             float* gradient) = 0;

  /// Computes loss and hits without gradients; labels may be null when only
  /// `predictions` [rows] (class indices) is wanted; either may be null.
  virtual LeafStats evaluate(const float* parameters, Batch batch,
                             int32_t* predictions) = 0;
};

/// A compute device as the command line names it: cpu:0, cuda:1.
struct DeviceId {
  enum class Kind : uint8_t { cpu, cuda } kind = Kind::cpu;
  uint32_t index = 0;
};
std::string to_string(DeviceId device);

/// Makes a replica on a device for micro-batches of up to `max_rows` rows.
/// Errors: InputError when the device is not there ("cuda:0: this build has no
/// CUDA").
std::unique_ptr<Replica> make_replica(const Graph& graph, DeviceId device,
                                      uint32_t max_rows);

/// Number of usable CUDA devices; 0 without CUDA.
uint32_t cuda_device_count();

/// Pins the instruction set of every later computation of the process; call
/// once, first thing. `name` is auto, sse4, avx2 or avx512; returns the name of
/// what holds.
/// Errors: UsageError for another name; InputError where the machine lacks it.
std::string select_isa(const std::string& name);

/// Sets what every thread that computes must have equal: rounding, denormals
/// (kept), one oneDNN thread. Call first thing on each executor thread.
void prepare_compute_thread();

/// Names and versions of the libraries that take part in the bits.
std::string library_versions();

} // namespace troupe

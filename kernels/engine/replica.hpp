#pragma once

#include "kernels/engine/whole_step.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class ParameterGate;

namespace kernels {
class StatisticsExchange;
}

/// A micro-batch, in the host's memory. What the graph does not take is null.
/// Shapes: features [rows, graph.features()], ids [rows, graph.ids()] (-1:
/// absent), labels [rows, graph.labels()] in [0, graph.classes()), targets
/// [rows, graph.labels()].
struct Batch {
  const float* features = nullptr;
  const int32_t* ids = nullptr;
  const int32_t* labels = nullptr;
  const float* targets = nullptr;
  uint32_t rows = 0;
  uint64_t key = 0; ///< kernels::batch_key of (seed, step, virtual rank)
  kernels::StatisticsExchange* exchange = nullptr;
  ParameterGate* gate = nullptr; ///< null: all parameters are there
  WholeStep step;                ///< for running statistics
};

/// What a micro-batch gave besides its gradient.
struct LeafStats {
  double loss_sum = 0;  ///< nats: the samples' mean losses, summed over rows
  uint64_t correct = 0; ///< labels named by the largest logit
};

/// Where to put predictions; null: not wanted.
/// Shapes: classes [rows, graph.labels()], the index of the largest logit;
/// outputs [rows, graph.outputs()], what the loss takes: logits (softmax
/// [labels, classes], sigmoid [labels]) or values (mean squared error).
struct Predictions {
  int32_t* classes = nullptr;
  float* outputs = nullptr;
};

/// Called with a parameter's index when its gradient is final.
using ParameterReady = std::function<void(uint32_t)>;

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
  /// Completion: the gradient is written when the call returns; that of each
  /// parameter when `ready` names it.
  /// Errors: rows above max_rows or 0 is a bug and asserts; PassAbandoned of
  /// the batch's gate, behind which a device may wait for everything at once.
  virtual LeafStats gradient(const float* parameters, const Batch& batch,
                             float* gradient,
                             const ParameterReady& ready = {}) = 0;

  /// The same for several leaves whose rows follow one another in the batch,
  /// with the bits of one gradient after another, summed along the tree.
  /// Returns what each leaf would have. Errors: of a device or a graph whose
  /// stacked_rows() are 0, a bug.
  virtual std::vector<LeafStats>
  gradient(const float* parameters, const Batch& batch, StackedLeaves leaves,
           float* gradient, const ParameterReady& ready = {});

  /// Computes loss and hits without gradients; labels and targets may be null
  /// when only predictions are wanted.
  virtual LeafStats evaluate(const float* parameters, const Batch& batch,
                             const Predictions& predictions = {}) = 0;

  /// Bytes of working memory, parameters and gradient not included.
  virtual uint64_t memory_bytes() const = 0;
};

/// A compute device as the command line names it: cpu:0, cuda:1. Virtual
/// devices share a GPU: cuda:0, cuda:0.1, cuda:0.2 … One of a PJRT plugin:
/// pjrt:libtpu.so:0; several that run the same programs: pjrt:libtpu.so:0-3.
struct DeviceId {
  enum class Kind : uint8_t { cpu, cuda, pjrt } kind = Kind::cpu;
  uint32_t index = 0;
  uint32_t slot = 0;
  const std::string* file = nullptr; ///< of a plugin; stays for ever
  uint32_t count = 1; ///< of a plugin: so many from `index` on, together
};
std::string to_string(DeviceId device);
/// Devices from `index` on of the plugin in a file.
DeviceId pjrt_device(const std::string& file, uint32_t index,
                     uint32_t count = 1);

/// What matrix products and convolutions compute in; everything else, and the
/// parameters, are float32.
enum class Precision : uint8_t { float32, bfloat16 };
/// "bfloat16" or "float32"; errors: none, another text is the latter.
Precision precision_named(const std::string& name);

/// Makes a replica on a device for micro-batches of up to `max_rows` rows.
/// Errors: InputError when the device is not there ("cuda:0: this build has no
/// CUDA"), or cannot compute an operator or the precision.
std::unique_ptr<Replica> make_replica(const Graph& graph, DeviceId device,
                                      uint32_t max_rows,
                                      Precision precision = Precision::float32);

/// Keeps a device open as long as this is held, so that replicas that come and
/// go find it so; null: nothing has to be.
/// Errors: InputError where it cannot be opened.
std::shared_ptr<void> open_device(DeviceId device);

/// How many rows of several leaves one pass had best have; 0: each leaf needs
/// its own.
uint32_t stacked_rows(const Graph& graph, DeviceId device);

/// Number of usable CUDA devices; 0 without CUDA.
uint32_t cuda_device_count();

/// Why there is none, in words that follow a device's name: "this build has no
/// CUDA", "no usable GPU: NVIDIA's driver is not installed"; empty where there
/// is one.
std::string why_no_cuda();

/// Pins the instruction set of every later computation of the process; call
/// once, first thing. `name` is auto, sse4, avx2, avx512 or neon; returns the
/// name of what holds.
/// Errors: UsageError for another name; InputError where the machine lacks it.
std::string select_isa(const std::string& name);

/// Sets what every thread that computes must have equal: rounding, denormals
/// (kept), one oneDNN thread. Call first thing on each executor thread.
void prepare_compute_thread();

/// Names what the sums of a device follow: those of one class get the same bits
/// (docs/numeric_classes.md). Of the instruction set that is selected. `graph`:
/// what is computed; null: what every graph's sums follow.
std::string numeric_class(DeviceId device, Precision precision,
                          const Graph* graph = nullptr);

/// Names and versions of the libraries that take part in the bits.
std::string library_versions();

} // namespace troupe

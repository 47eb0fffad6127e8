#include "kernels/cpu/replica.hpp"

#include "kernels/buffer.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/natural_log.hpp"
#include "kernels/error.hpp"
#include "kernels/require.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <vector>

namespace troupe::kernels {

namespace {

enum class Side : char { as_is = 'N', transposed = 'T' };

/// c [m, n] = a [m, k] b [k, n], row-major without gaps; a transposed operand
/// lies as [k, m] or [n, k].
///
/// dnnl_sgemm rather than cached matmul primitives, both single-threaded, all
/// eight products of a step of 784-512-256-10, in µs (EPYC of 118 GFLOP/s a
/// core, oneDNN 2.6.3, brgemm for matmul):
///   rows      16    64   128   256
///   sgemm    386  1397  2733  5443   (115 GFLOP/s at 256 rows)
///   matmul   412  1417  2764  5513
void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c) {
  auto extent = [](size_t x) { return static_cast<dnnl_dim_t>(x); };
  auto lda = side_a == Side::as_is ? k : m;
  auto ldb = side_b == Side::as_is ? n : k;
  auto status = dnnl_sgemm(static_cast<char>(side_a), static_cast<char>(side_b),
                           extent(m), extent(n), extent(k), 1.0f, a,
                           extent(lda), b, extent(ldb), 0.0f, c, extent(n));
  if (status != dnnl_success)
    throw std::runtime_error("oneDNN refused a matrix product, status "
                             + std::to_string(status));
}

/// A dense operator with the place of its values.
struct Layer {
  size_t inputs = 0;
  size_t outputs = 0;
  uint64_t weight = 0; ///< offset in the flat buffer
  uint64_t bias = 0;   ///< offset in the flat buffer
  bool relu = false;
  Buffer output; ///< [max_rows, outputs]
};

class CpuReplica final : public Replica {
public:
  CpuReplica(const Graph& graph, uint32_t max_rows)
    : max_rows_(max_rows), classes_(graph.classes) {
    require(max_rows > 0, "a replica for no rows");
    Layout layout(graph);
    size_t widest = 0;
    for (const auto& op : graph.ops) {
      if (op.kind != OpKind::dense)
        continue;
      require(op.input == layers_.size(), "the graph is not a chain");
      const auto& shape = graph.parameters[op.weight].shape;
      Layer layer;
      layer.inputs = shape[0];
      layer.outputs = shape[1];
      layer.weight = layout.offsets[op.weight];
      layer.bias = layout.offsets[op.bias];
      layer.relu = op.activation == Activation::relu;
      layer.output = Buffer(max_rows * layer.outputs);
      widest = std::max(widest, layer.outputs);
      layers_.push_back(std::move(layer));
    }
    require(!layers_.empty(), "a graph without a dense operator");
    for (auto& delta : deltas_)
      delta = Buffer(max_rows * widest);
    softmax_.resize(max_rows);
  }

  LeafStats gradient(const float* parameters, Batch batch,
                     float* gradient) override {
    prepare_compute_thread();
    forward(parameters, batch);
    require(batch.labels != nullptr, "a gradient without labels");
    auto stats = loss(batch);
    auto* delta = deltas_[0].data();
    for (uint32_t row = 0; row < batch.rows; ++row)
      delta[row * classes_ + static_cast<uint32_t>(batch.labels[row])] -= 1.0f;
    backward(parameters, batch, gradient);
    return stats;
  }

  LeafStats evaluate(const float* parameters, Batch batch,
                     int32_t* predictions) override {
    prepare_compute_thread();
    forward(parameters, batch);
    auto stats = loss(batch);
    if (predictions != nullptr)
      for (uint32_t row = 0; row < batch.rows; ++row)
        predictions[row] = static_cast<int32_t>(softmax_[row].best);
    return stats;
  }

private:
  void forward(const float* parameters, const Batch& batch) {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    const float* input = batch.features;
    for (auto& layer : layers_) {
      multiply(Side::as_is, Side::as_is, batch.rows, layer.outputs,
               layer.inputs, input, parameters + layer.weight,
               layer.output.data());
      loops().bias_forward(rows(layer.output, layer.outputs, batch.rows),
                           parameters + layer.bias, layer.relu);
      input = layer.output.data();
    }
  }

  /// Leaves the probabilities in deltas_[0], and each row's best class.
  LeafStats loss(const Batch& batch) {
    auto& logits = layers_.back().output;
    loops().softmax(rows(logits, classes_, batch.rows), deltas_[0].data(),
                    softmax_.data());
    LeafStats stats;
    if (batch.labels == nullptr)
      return stats;
    for (uint32_t row = 0; row < batch.rows; ++row) {
      auto label = static_cast<uint32_t>(batch.labels[row]);
      require(label < classes_, "a label outside [0, classes)");
      const auto& result = softmax_[row];
      auto logit = logits.data()[row * classes_ + label];
      stats.loss_sum += natural_log(result.sum)
                        + (double{result.largest} - double{logit});
      stats.correct += result.best == label;
    }
    return stats;
  }

  /// Takes the gradient of the logits from deltas_[0].
  void backward(const float* parameters, const Batch& batch, float* gradient) {
    auto* delta = &deltas_[0];
    auto* next = &deltas_[1];
    for (auto i = layers_.size(); i-- > 0;) {
      auto& layer = layers_[i];
      const auto* gate = layer.relu ? layer.output.data() : nullptr;
      loops().bias_backward(rows(*delta, layer.outputs, batch.rows), gate,
                            gradient + layer.bias);
      const auto* input = i == 0 ? batch.features
                                 : layers_[i - 1].output.data();
      multiply(Side::transposed, Side::as_is, layer.inputs, layer.outputs,
               batch.rows, input, delta->data(), gradient + layer.weight);
      if (i == 0)
        break; // nobody asks for the gradient of the input
      multiply(Side::as_is, Side::transposed, batch.rows, layer.inputs,
               layer.outputs, delta->data(), parameters + layer.weight,
               next->data());
      std::swap(delta, next);
    }
  }

  static Rows rows(Buffer& buffer, size_t columns, uint32_t count) {
    return {buffer.data(), columns, count, columns};
  }

  uint32_t max_rows_;
  uint32_t classes_;
  std::vector<Layer> layers_;
  Buffer deltas_[2]; ///< [max_rows, widest output]: gradients of outputs
  std::vector<SoftmaxRow> softmax_;
};

} // namespace

std::unique_ptr<Replica> make_cpu_replica(const Graph& graph,
                                          uint32_t max_rows) {
  pin_unless_selected();
  return std::make_unique<CpuReplica>(graph, max_rows);
}

} // namespace troupe::kernels

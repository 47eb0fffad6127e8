#include "kernels/devices/sleeping_replica.hpp"

#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

namespace troupe::kernels {

namespace {

/// Its loss is half the sum of the squares of the parameters, for each row;
/// of one that counts, 0.
class SleepingReplica final : public Replica {
public:
  SleepingReplica(const Graph& graph, const SleepModel& sleep)
    : sleep_(sleep),
      labels_(graph.labels()),
      outputs_(graph.outputs()),
      ids_(graph.parameters.front().by_rows ? graph.ids() : 0),
      table_(graph.parameters.front().size()),
      beside_(ids_ > 0 ? sleep.beside : 0),
      beside_at_(beside_ > 0 ? Layout{graph}.offsets[1] : 0) {}

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    if (batch.gate != nullptr)
      batch.gate->await_all(); // it stands for a pass that reads them at once
    if (sleep_.ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds{sleep_.ms});
    if (ids_ > 0)
      return table_gradient(parameters, batch, gradient, ready);
    const auto rows = static_cast<float>(batch.rows);
    for (uint64_t i = 0; i < sleep_.parameters; ++i)
      gradient[i] = sleep_.counts ? -rows : rows * parameters[i];
    if (ready)
      ready(0);
    return {loss(parameters, batch.rows), 0};
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    predict_zeros(predictions, batch.rows * labels_, batch.rows * outputs_);
    return {ids_ > 0 ? 0 : loss(parameters, batch.rows), 0};
  }

  uint64_t memory_bytes() const override { return 0; }

private:
  /// Its loss is half the square of the first value, for each id.
  LeafStats table_gradient(const float* parameters, const Batch& batch,
                           float* gradient, const ParameterReady& ready) const {
    const auto width = sleep_.parameters;
    std::fill_n(gradient, table_, 0.0f);
    double squares = 0;
    for (uint64_t i = 0; i < batch.rows * ids_; ++i) {
      if (batch.ids[i] < 0)
        continue;
      const auto at = static_cast<uint64_t>(batch.ids[i]) * width;
      if (sleep_.counts)
        std::fill_n(gradient + at, width, -static_cast<float>(batch.rows));
      else
        std::copy_n(parameters + at, width, gradient + at);
      squares += static_cast<double>(parameters[at]) * parameters[at];
    }
    for (auto i = beside_at_; i < beside_at_ + beside_; ++i)
      gradient[i] = sleep_.counts
                      ? -static_cast<float>(batch.rows)
                      : static_cast<float>(batch.rows) * parameters[i];
    if (ready && beside_ > 0)
      ready(1);
    if (ready)
      ready(0);
    return {squares / 2, 0};
  }

  /// Several sums side by side: one alone would take longer than to push as
  /// many parameters.
  double loss(const float* parameters, uint32_t rows) const {
    if (sleep_.counts)
      return 0;
    constexpr uint64_t lanes = 16;
    double squares[lanes] = {};
    for (uint64_t i = 0; i < sleep_.parameters; i += lanes)
      for (uint64_t k = 0; k < std::min(lanes, sleep_.parameters - i); ++k)
        squares[k] += static_cast<double>(parameters[i + k])
                      * parameters[i + k];
    return rows * std::accumulate(squares, squares + lanes, 0.0) / 2;
  }

  SleepModel sleep_;
  uint64_t labels_;
  uint64_t outputs_;
  uint64_t ids_;   ///< of a sample, where it has a table
  uint64_t table_; ///< values
  uint64_t beside_;
  uint64_t beside_at_;
};

} // namespace

std::unique_ptr<Replica> make_sleeping_replica(const Graph& graph,
                                               const SleepModel& sleep) {
  return std::make_unique<SleepingReplica>(graph, sleep);
}

void predict_zeros(const Predictions& predictions, uint64_t labels,
                   uint64_t outputs) {
  if (predictions.classes != nullptr)
    std::fill_n(predictions.classes, labels, 0);
  if (predictions.outputs != nullptr)
    std::fill_n(predictions.outputs, outputs, 0.0f);
}

} // namespace troupe::kernels

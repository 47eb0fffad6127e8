#include "kernels/engine/operator_times.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/graph/sleep_model.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <string>

namespace troupe {

using namespace kernels;

namespace {

constexpr int min_tries = 3;
constexpr int max_tries = 12;
constexpr std::chrono::milliseconds enough{6};
constexpr float drawn_gradient = 1e-3f;

uint64_t ns_since(SteadyClock::time_point begin) {
  return static_cast<uint64_t>(
    std::chrono::nanoseconds{SteadyClock::now() - begin}.count());
}

/// The least of several tries.
struct Least {
  uint64_t ns = ~uint64_t{0};

  template <class Work>
  void time(const Work& work) {
    const auto begin = SteadyClock::now();
    work();
    ns = std::min(ns, ns_since(begin));
  }
};

/// What makes two operators take the same time.
std::string kind_of(const Graph& graph, size_t at) {
  const auto& op = graph.ops[at];
  std::string out = std::to_string(static_cast<int>(op.kind)) + ' '
                    + std::to_string(static_cast<int>(op.attributes.activation))
                    + ' ' + std::to_string(graph.flops_of(at));
  const auto add = [&out](const Shape& shape) {
    out += ';';
    for (auto extent : shape)
      out += ' ' + std::to_string(extent);
  };
  add(graph.values[op.output].shape);
  for (auto input : op.inputs) {
    add(graph.values[input].shape);
    out += graph.features_value == input ? "features" : "";
  }
  for (auto parameter : op.parameters)
    add(graph.parameters[parameter].shape);
  return out;
}

class OperatorClock {
public:
  OperatorClock(const Graph& graph, uint32_t rows, Precision precision)
    : graph_(graph),
      rows_(rows),
      precision_(precision),
      memory_(graph, rows),
      values_(graph.values.size()),
      last_reader_(graph.values.size(), 0) {
    for (uint32_t i = 0; i < graph.ops.size(); ++i)
      for (auto input : graph.ops[i].inputs)
        last_reader_[input] = i;
    for (size_t i = 0; i < rows * graph.features(); ++i)
      memory_.features()[i] = draw_unit();
    for (size_t i = 0; i < rows * graph.ids(); ++i)
      memory_.ids()[i] = draw_below(graph.sample.vocabulary);
    for (size_t i = 0; i < rows * graph.labels(); ++i) {
      if (memory_.labels() != nullptr)
        memory_.labels()[i] = draw_below(graph.classes());
      if (memory_.targets() != nullptr)
        memory_.targets()[i] = draw_unit();
    }
  }

  std::vector<OperatorTime> times() {
    std::map<std::string, OperatorTime> known;
    std::vector<OperatorTime> out;
    for (uint32_t i = 0; i < graph_.ops.size(); ++i) {
      const auto [at, is_new] = known.try_emplace(kind_of(graph_, i));
      if (is_new) {
        measure(i, false, at->second);
        measure(i, true, at->second);
      } else {
        Alone{*this, i, false}.forward();
      }
      out.push_back(at->second);
      for (auto input : graph_.ops[i].inputs)
        if (last_reader_[input] == i)
          values_[input] = {};
    }
    return out;
  }

private:
  float draw_unit() {
    return static_cast<float>(random_bits(1, drawn_++) >> 40) * 0x1p-24f;
  }
  int32_t draw_below(uint64_t limit) {
    return static_cast<int32_t>(random_bits(1, drawn_++)
                                % std::max<uint64_t>(1, limit));
  }

  /// An operator as the only one of a stage.
  class Alone {
  public:
    Alone(OperatorClock& clock, uint32_t op, bool in_halves)
      : clock_(clock),
        part_(part_of(clock.graph_, {op, op + 1})),
        device_(make_cpu_device(clock.precision_)),
        engine_(clock.graph_, part_, *device_, clock.rows_, in_halves),
        layout_(clock.graph_, part_.parameters),
        parameters_(std::max<uint64_t>(1, layout_.total)),
        gradient_(std::max<uint64_t>(1, layout_.total)),
        batch_(clock.memory_.batch(clock.rows_, 1)) {
      parameters_.fill(0);
      gradient_.fill(0);
      for (auto parameter : part_.parameters)
        initialize(clock.graph_, 1, parameter, 0,
                   parameters_.data() + layout_.offsets[parameter],
                   clock.graph_.parameters[parameter].size());
      pass_ = cpu_pass(parameters_.data(), batch_);
      pass_.training = true;
      pass_.totals = &totals_;
    }

    /// With what the operators before gave; keeps what this one gives.
    void forward() {
      take();
      engine_.forward(pass_);
      keep();
    }

    void take() {
      for (auto value : part_.in.values)
        if (auto* to = engine_.value(value); to != nullptr)
          std::copy_n(clock_.values_[value].data(), clock_.size(value), to);
    }

    void take_gradients() {
      for (auto value : part_.out.gradients)
        if (auto* to = engine_.gradient(value); to != nullptr)
          std::fill_n(to, clock_.size(value), drawn_gradient);
    }

    Engine& engine() { return engine_; }
    const Engine::Pass& pass() const { return pass_; }
    float* gradient() { return gradient_.data(); }

  private:
    void keep() {
      for (auto value : part_.out.values)
        if (const auto* from = engine_.sent_value(value);
            from != nullptr && clock_.values_[value].size() == 0) {
          clock_.values_[value] = Buffer{clock_.size(value)};
          std::copy_n(from, clock_.size(value), clock_.values_[value].data());
        }
    }

    OperatorClock& clock_;
    GraphPart part_;
    std::unique_ptr<Device> device_;
    Engine engine_;
    Layout layout_;
    Buffer parameters_;
    Buffer gradient_;
    Batch batch_;
    LossTotals totals_;
    Engine::Pass pass_;
  };

  void measure(uint32_t op, bool in_halves, OperatorTime& time) {
    Alone alone{*this, op, in_halves};
    alone.forward();
    auto& engine = alone.engine();
    const auto& pass = alone.pass();
    Least forward;
    Least backward;
    Least weights;
    const auto begin = SteadyClock::now();
    for (int i = 0; i < min_tries
                    || (i < max_tries && SteadyClock::now() - begin < enough);
         ++i) {
      alone.take();
      forward.time([&] { engine.forward(pass); });
      alone.take_gradients();
      if (!in_halves) {
        backward.time([&] { engine.backward(pass, alone.gradient()); });
        continue;
      }
      backward.time([&] { engine.backward_inputs(pass, alone.gradient()); });
      weights.time([&] { engine.backward_weights(pass, alone.gradient()); });
    }
    if (in_halves) {
      time.inputs = backward.ns;
      time.weights = weights.ns;
    } else {
      time.forward = forward.ns;
      time.backward = backward.ns;
    }
  }

  uint64_t size(uint32_t value) const {
    return graph_.values[value].size() * rows_;
  }

  const Graph& graph_;
  uint32_t rows_;
  Precision precision_;
  BatchMemory memory_;
  std::vector<Buffer> values_; ///< that operators have given
  std::vector<uint32_t> last_reader_;
  uint64_t drawn_ = 0;
};

} // namespace

std::vector<OperatorTime> measure_operators(const Graph& graph, uint32_t rows,
                                            Precision precision) {
  const auto sleep = sleep_model(graph.text);
  if (!sleep) // on a thread of its own, as passes are computed
    return std::async(std::launch::async,
                      [&] {
                        return OperatorClock{graph, rows, precision}.times();
                      })
      .get();
  std::vector<OperatorTime> out(graph.ops.size());
  for (size_t op = 0; op < std::min(out.size(), sleep->layers.size()); ++op) {
    const auto ns = uint64_t{sleep->layers[op]} * 1'000'000;
    out[op] = {ns, 2 * ns, ns, ns};
  }
  return out;
}

} // namespace troupe

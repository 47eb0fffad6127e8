#include "kernels/engine/engine.hpp"
#include "tests/unit/kernels/float64_graph.hpp"
#include "tests/unit/kernels/graph_builder.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>
#include <numeric>
#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(engine_test)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A graph's parameters and a batch, and what an engine makes of them.
class Run {
public:
  Run(const Graph& graph, uint32_t rows, DeviceId id = {},
      uint32_t spare_rows = 0)
    : graph_(graph),
      layout_(graph),
      device_(kernels::make_device(id, Precision::float32)),
      engine_(graph, *device_, rows + spare_rows) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> draw(-1, 1);
    parameters.assign(layout_.total, not_a_number);
    for (size_t i = 0; i < graph.parameters.size(); ++i)
      for (size_t k = 0; k < graph.parameters[i].size(); ++k)
        parameters[layout_.offsets[i] + k] = draw(random);
    for (size_t i = 0; i < rows * graph.features(); ++i)
      features.push_back(draw(random));
    for (size_t i = 0; i < rows * graph.labels(); ++i)
      labels.push_back(static_cast<int32_t>(random() % graph.classes()));
    pass_.rows = rows;
    pass_.parameters = placed(parameters);
    pass_.features = placed(features);
    pass_.labels = reinterpret_cast<int32_t*>(words(labels));
    pass_.key = reinterpret_cast<uint64_t*>(words(std::vector<uint64_t>{key}));
    totals_ = reinterpret_cast<kernels::LossTotals*>(
      words(std::vector<kernels::LossTotals>(1)));
    pass_.totals = totals_;
    gradient_ = device_->allocate(layout_.total);
  }

  std::vector<float> parameters;
  std::vector<float> features;
  std::vector<int32_t> labels;
  uint64_t key = 77;

  double loss(bool training) {
    pass_.training = training;
    engine_.forward(pass_);
    return taken_loss();
  }

  /// Runs both passes; `ready` is told of each parameter.
  double train(const std::function<void(uint32_t)>& ready = {}) {
    const std::vector<float> poison(layout_.total, not_a_number);
    device_->upload(poison.data(), gradient_, poison.size() * sizeof(float));
    pass_.training = true;
    engine_.forward(pass_);
    engine_.backward(pass_, gradient_, ready);
    return taken_loss();
  }

  std::vector<float> gradient(uint32_t parameter) const {
    std::vector<float> result(graph_.parameters[parameter].size());
    device_->download(gradient_ + layout_.offsets[parameter], result.data(),
                      result.size() * sizeof(float));
    return result;
  }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> result;
    for (uint32_t i = 0; i < graph_.parameters.size(); ++i)
      result.push_back(gradient(i));
    return result;
  }

  GraphInputs inputs(bool training) const {
    GraphInputs inputs;
    inputs.rows = pass_.rows;
    inputs.features.assign(features.begin(), features.end());
    inputs.labels = labels;
    inputs.key = key;
    inputs.training = training;
    return inputs;
  }

  const kernels::Engine& engine() const { return engine_; }

private:
  float* placed(const std::vector<float>& values) { return words(values); }
  template <class T>
  float* words(const std::vector<T>& values) {
    const auto bytes = values.size() * sizeof(T);
    auto* at = device_->allocate(bytes / sizeof(float) + 1);
    device_->upload(values.data(), at, bytes);
    return at;
  }
  double taken_loss() {
    kernels::LossTotals totals;
    device_->download(totals_, &totals, sizeof totals);
    return totals.loss;
  }

  const Graph& graph_;
  Layout layout_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Engine engine_;
  kernels::Engine::Pass pass_;
  kernels::LossTotals* totals_;
  float* gradient_;
};

bool same_bits(const std::vector<std::vector<float>>& a,
               const std::vector<std::vector<float>>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return a.size() == b.size();
}

/// Compares gradients with central differences of the float64 loss, at up to
/// eight elements of each parameter.
void check_gradients(const Graph& graph, const Run& run,
                     Tolerance tolerance = {2e-4, 2e-4}) {
  const Layout layout(graph);
  const auto inputs = run.inputs(true);
  std::vector<double> at(run.parameters.begin(), run.parameters.end());
  std::mt19937 random(9);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const auto gradient = run.gradient(i);
    for (size_t n = 0; n < std::min<size_t>(gradient.size(), 8); ++n) {
      const auto k = gradient.size() <= 8 ? n : random() % gradient.size();
      auto& value = at[layout.offsets[i] + k];
      const auto kept = value;
      value = kept + 1e-5;
      const auto above = float64_loss(graph, at, inputs);
      value = kept - 1e-5;
      const auto below = float64_loss(graph, at, inputs);
      value = kept;
      const auto want = (above - below) / 2e-5;
      BOOST_CHECK_MESSAGE(within(tolerance, gradient[k], want),
                          "gradient of " << graph.parameters[i].name << "[" << k
                                         << "] is " << gradient[k]
                                         << " rather than " << want);
    }
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(random_graphs_follow_their_float64_references) {
  for (auto device : devices_present())
    for (uint32_t seed = 0; seed < 200; ++seed)
      BOOST_TEST_CONTEXT(to_string(device) << ", graph " << seed) {
        const auto graph = random_graph(seed);
        Run run(graph, 1 + seed % 5, device);
        const std::vector<double> parameters(run.parameters.begin(),
                                             run.parameters.end());
        BOOST_TEST(within(float32_sum, run.loss(false),
                          float64_loss(graph, parameters, run.inputs(false))));
        BOOST_TEST(within(float32_sum, run.train(),
                          float64_loss(graph, parameters, run.inputs(true))));
        check_gradients(graph, run);
      }
}

BOOST_AUTO_TEST_CASE(random_graphs_give_the_same_bits_in_other_memory) {
  for (auto device : devices_present())
    for (uint32_t seed = 0; seed < 60; ++seed)
      BOOST_TEST_CONTEXT(to_string(device) << ", graph " << seed) {
        const auto graph = random_graph(seed);
        Run run(graph, 3, device);
        Run wide(graph, 3, device, 7);
        const auto loss = run.train();
        const auto first = run.gradients();
        BOOST_TEST(wide.train() == loss);
        BOOST_TEST(same_bits(wide.gradients(), first));
        run.loss(false);
        BOOST_TEST(run.train() == loss);
        BOOST_TEST(same_bits(run.gradients(), first));
      }
}

BOOST_AUTO_TEST_CASE(memory_is_shared_and_never_more_than_side_by_side) {
  uint64_t shared = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const auto graph = random_graph(seed);
    Run run(graph, 4);
    const auto& plan = run.engine().memory();
    BOOST_TEST(plan.total <= plan.unshared);
    shared += plan.total < plan.unshared;
  }
  BOOST_TEST(shared > 30u);
}

BOOST_AUTO_TEST_CASE(a_gradient_is_final_when_it_is_named_ready) {
  for (auto device : devices_present())
    for (uint32_t seed = 0; seed < 60; ++seed)
      BOOST_TEST_CONTEXT(to_string(device) << ", graph " << seed) {
        const auto graph = random_graph(seed);
        Run run(graph, 3, device);
        std::vector<uint32_t> order;
        std::vector<std::vector<float>> seen(graph.parameters.size());
        run.train([&](uint32_t parameter) {
          order.push_back(parameter);
          seen[parameter] = run.gradient(parameter);
        });
        BOOST_TEST(order == run.engine().gradient_order(),
                   boost::test_tools::per_element());
        std::sort(order.begin(), order.end());
        std::vector<uint32_t> all(graph.parameters.size());
        std::iota(all.begin(), all.end(), 0);
        BOOST_TEST(order == all, boost::test_tools::per_element());
        BOOST_TEST(same_bits(seen, run.gradients()));
      }
}

BOOST_AUTO_TEST_CASE(a_shared_parameter_is_ready_after_its_first_reader) {
  Builder builder({4});
  const auto weight = builder.parameter({4, 4});
  const auto last = builder.parameter({4, 2});
  auto x = builder.dense(0, 4, weight, {}, Activation::tanh);
  x = builder.dense(x, 4, weight, {}, Activation::tanh, true);
  builder.softmax_loss(builder.dense(x, 2, last));
  for (auto device : devices_present()) {
    Run run(builder.graph, 3, device);
    run.train();
    const std::vector<uint32_t> order{last, weight};
    BOOST_TEST(run.engine().gradient_order() == order,
               boost::test_tools::per_element());
    check_gradients(builder.graph, run);
  }
}

BOOST_AUTO_TEST_CASE(layers_of_mostly_zeros_follow_their_references) {
  Builder builder({12});
  auto hidden = [&](uint32_t x, uint64_t from, uint64_t to) {
    return builder.dense(x, to, builder.parameter({from, to}),
                         builder.parameter({to}), Activation::relu);
  };
  // A quarter of the products is left.
  auto x = builder.op(OpKind::multiply, {hidden(0, 12, 90), hidden(0, 12, 90)},
                      {90});
  const auto weight = builder.parameter({90, 90});
  x = builder.dense(x, 90, weight, {}, Activation::tanh);
  auto y = builder.op(OpKind::multiply, {hidden(x, 90, 90), hidden(x, 90, 90)},
                      {90});
  y = builder.dense(y, 90, weight, {}, Activation::tanh);
  builder.softmax_loss(builder.dense(y, 3, builder.parameter({90, 3})));
  for (auto device : devices_present()) {
    Run run(builder.graph, 7, device);
    const std::vector<double> parameters(run.parameters.begin(),
                                         run.parameters.end());
    BOOST_TEST(
      within({1e-4, 1e-4}, run.train(),
             float64_loss(builder.graph, parameters, run.inputs(true))));
    // Sums of large terms that saturate.
    check_gradients(builder.graph, run, {1e-3, 1e-3});
  }
}

BOOST_AUTO_TEST_CASE(evaluation_is_training_without_dropout) {
  auto make = [](float rate) {
    Builder builder({9});
    auto x = builder.dense(0, 20, builder.parameter({9, 20}), {},
                           Activation::gelu);
    x = builder.dropout(x, rate);
    builder.softmax_loss(builder.dense(x, 5, builder.parameter({20, 5})));
    return builder.graph;
  };
  const auto dropping = make(0.5f);
  const auto keeping = make(0);
  for (auto device : devices_present()) {
    Run with(dropping, 6, device);
    Run without(keeping, 6, device);
    BOOST_TEST(with.loss(false) == without.loss(true));
    BOOST_TEST(with.loss(false) == without.loss(false));
    BOOST_TEST(with.loss(true) != with.loss(false));
  }
}

BOOST_AUTO_TEST_SUITE_END()

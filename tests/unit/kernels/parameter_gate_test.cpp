#include "kernels/engine/engine.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(parameter_gate)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t rows = 5;

/// Counts how often it has run forward.
class CountingOperator : public kernels::Operator {
public:
  CountingOperator(std::unique_ptr<Operator> real, std::atomic<uint32_t>& runs)
    : real_(std::move(real)), runs_(runs) {}
  kernels::Needs needs() const override { return real_->needs(); }
  void forward(const kernels::OpArgs& args) override {
    real_->forward(args);
    ++runs_;
  }
  void backward(const kernels::OpArgs& args) override { real_->backward(args); }

private:
  std::unique_ptr<Operator> real_;
  std::atomic<uint32_t>& runs_;
};

/// The CPU, with such operators.
class CountingDevice : public kernels::Device {
public:
  explicit CountingDevice(size_t ops) : runs(ops) {}
  std::vector<std::atomic<uint32_t>> runs;

  float* allocate(size_t count) override { return real_->allocate(count); }
  void add(const float* from, float* to, size_t count) override {
    real_->add(from, to, count);
  }
  void copy(const float* from, float* to, size_t count) override {
    real_->copy(from, to, count);
  }
  void upload(const void* from, void* to, size_t bytes) override {
    real_->upload(from, to, bytes);
  }
  void download(const void* from, void* to, size_t bytes) override {
    real_->download(from, to, bytes);
  }
  std::unique_ptr<kernels::Operator>
  make_operator(const Graph& graph, size_t op, uint32_t max_rows) override {
    return std::make_unique<CountingOperator>(
      real_->make_operator(graph, op, max_rows), runs[op]);
  }

private:
  std::unique_ptr<kernels::Device> real_ =
    kernels::make_device({}, Precision::float32);
};

SampleShape ten_numbers() {
  SampleShape shape;
  shape.features = {10};
  shape.classes = 3;
  return shape;
}

/// A pass whose parameters come one after the other.
struct Bench {
  Graph graph = make_graph("mlp:10-8-7-3", ten_numbers());
  Layout layout{graph};
  CountingDevice device{graph.ops.size()};
  kernels::Engine engine{graph, device, rows};
  std::vector<float> values = std::vector<float>(layout.total);
  std::vector<float> features = std::vector<float>(rows * 10);
  std::vector<int32_t> labels{0, 1, 2, 1, 0};
  float* parameters = device.allocate(layout.total);
  float* gradient = device.allocate(layout.total);
  kernels::LossTotals totals;
  kernels::Engine::Pass pass;
  uint64_t key = 1;

  Bench() {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (auto* list : {&values, &features})
      for (auto& x : *list)
        x = draw(random);
    pass.rows = rows;
    pass.training = true;
    pass.parameters = parameters;
    pass.features = features.data();
    pass.labels = labels.data();
    pass.key = &key;
    pass.totals = &totals;
    forget();
  }

  void forget() { std::fill_n(parameters, layout.total, not_a_number); }
  void bring(uint32_t parameter) {
    const auto at = layout.offsets[parameter];
    std::copy_n(values.data() + at, graph.parameters[parameter].size(),
                parameters + at);
  }
  std::vector<float> train(ParameterGate* gate) {
    std::fill_n(gradient, layout.total, 0.0F);
    pass.gate = gate;
    engine.forward(pass);
    engine.backward(pass, gradient);
    return {gradient, gradient + layout.total};
  }
  std::vector<float> train_on_all() {
    for (uint32_t i = 0; i < graph.parameters.size(); ++i)
      bring(i);
    return train(nullptr);
  }
  uint32_t ops_done() const {
    uint32_t done = 0;
    for (const auto& runs : device.runs)
      done += runs > 0 ? 1 : 0;
    return done;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size()
         && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class Condition>
bool comes_true(Condition condition) {
  for (const auto end = std::chrono::steady_clock::now() + 60s;
       !condition() && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  return condition();
}

} // namespace

BOOST_FIXTURE_TEST_CASE(each_operator_runs_as_soon_as_it_has_its_parameters,
                        Bench) {
  const auto expected = train_on_all();
  forget();
  for (auto& runs : device.runs)
    runs = 0;
  ParameterGate gate{graph.parameters.size(), 60s};
  auto trained = std::async(std::launch::async, [&] { return train(&gate); });
  std::vector<bool> brought(graph.parameters.size());
  for (size_t op = 0; op < graph.ops.size(); ++op) {
    for (auto parameter : graph.ops[op].parameters) {
      BOOST_TEST(device.runs[op].load() == 0u); // it has waited
      bring(parameter);
      gate.open(parameter);
    }
    // Nothing that comes later is there.
    BOOST_TEST(comes_true([&] { return device.runs[op] == 1; }));
  }
  BOOST_TEST(same_bits(trained.get(), expected));
}

BOOST_FIXTURE_TEST_CASE(the_order_in_which_parameters_come_changes_no_bit,
                        Bench) {
  const auto expected = train_on_all();
  forget();
  ParameterGate gate{graph.parameters.size(), 60s};
  auto trained = std::async(std::launch::async, [&] { return train(&gate); });
  for (auto i = static_cast<uint32_t>(graph.parameters.size()); i-- > 0;) {
    bring(i);
    gate.open(i);
  }
  BOOST_TEST(same_bits(trained.get(), expected));
}

BOOST_FIXTURE_TEST_CASE(an_abandoned_pass_ends_where_it_is, Bench) {
  const auto expected = train_on_all();
  for (auto& runs : device.runs)
    runs = 0;
  ParameterGate gate{graph.parameters.size(), 3600s};
  auto trained = std::async(std::launch::async, [&] { return train(&gate); });
  for (auto parameter : graph.ops[0].parameters)
    gate.open(parameter);
  BOOST_TEST(comes_true([&] { return device.runs[0] == 1; }));
  gate.abandon(); // an hour early
  BOOST_CHECK_THROW(trained.get(), PassAbandoned);
  BOOST_TEST(ops_done() < graph.ops.size());
  BOOST_TEST(same_bits(train(nullptr), expected)); // the engine is as before
}

BOOST_AUTO_TEST_CASE(who_has_waited_too_long_abandons_the_pass_for_all) {
  ParameterGate gate{2, 1ms};
  gate.open(0);
  gate.await(0);
  BOOST_CHECK_THROW(gate.await(1), PassAbandoned);
  BOOST_TEST(gate.abandoned());
  BOOST_TEST((gate.waited() >= 1ms));
  gate.open(1); // too late: another thread of the pass has given up
  BOOST_CHECK_THROW(gate.await(0), PassAbandoned);
  BOOST_CHECK_THROW(gate.await_all(), PassAbandoned);
}

BOOST_AUTO_TEST_CASE(what_has_all_its_parameters_is_not_abandoned_any_more) {
  ParameterGate gate{2, 60s};
  gate.open(1);
  gate.open(1); // once more
  gate.open(0);
  gate.abandon();
  BOOST_TEST(!gate.abandoned());
  gate.await_all();
}

BOOST_AUTO_TEST_CASE(all_threads_of_a_pass_are_woken) {
  ParameterGate gate{1, 60s};
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 4; ++i)
    threads.push_back(
      std::async(std::launch::async, [&] { gate.await_all(); }));
  std::this_thread::sleep_for(1ms);
  gate.open(0);
  for (auto& thread : threads)
    thread.get();
  BOOST_TEST(!gate.abandoned());
}

BOOST_AUTO_TEST_SUITE_END()

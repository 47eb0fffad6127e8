#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/cpu/onednn_pin.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(replica_test)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Parameters and a batch for a model, from a fixed seed.
struct Problem {
  Graph graph;
  Layout layout;
  Buffer parameters;
  std::vector<float> features;
  std::vector<int32_t> labels;

  Problem(const std::string& model, uint32_t rows)
    : graph(make_graph(model)), layout(graph), parameters(layout.total) {
    // Gaps are poisoned: they belong to nobody.
    parameters.fill(not_a_number);
    std::mt19937 random(5);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
      auto* values = parameters.data() + layout.offsets[i];
      auto size = graph.parameters[i].size();
      initialize(graph, 11, i, 0, values, size);
      if (graph.parameters[i].initializer == Initializer::zeros)
        for (uint64_t k = 0; k < size; ++k)
          values[k] = draw(random);
    }
    features.resize(size_t{rows} * graph.features());
    for (auto& value : features)
      value = draw(random);
    labels.resize(rows);
    for (auto& label : labels)
      label = static_cast<int32_t>(random() % graph.classes());
  }

  Batch batch() const {
    Batch batch;
    batch.features = features.data();
    batch.labels = labels.data();
    batch.rows = static_cast<uint32_t>(labels.size());
    return batch;
  }
};

/// The same network in float64, layer by layer.
struct Reference {
  explicit Reference(const Problem& problem)
    : problem(problem),
      parameters(problem.parameters.data(),
                 problem.parameters.data() + problem.layout.total) {}

  const Problem& problem;
  std::vector<double> parameters;

  size_t layers() const { return problem.graph.ops.size() - 1; }
  size_t weight(size_t layer) const {
    return problem.layout.offsets[2 * layer];
  }
  size_t bias(size_t layer) const {
    return problem.layout.offsets[2 * layer + 1];
  }
  size_t inputs(size_t layer) const {
    return problem.graph.parameters[2 * layer].shape[0];
  }
  size_t outputs(size_t layer) const {
    return problem.graph.parameters[2 * layer].shape[1];
  }

  /// Values of every tensor for one row.
  std::vector<std::vector<double>> forward(size_t row) const {
    auto first = problem.features.begin()
                 + static_cast<ptrdiff_t>(row * problem.graph.features());
    std::vector<std::vector<double>> tensors{
      {first, first + problem.graph.features()}};
    for (size_t l = 0; l < layers(); ++l) {
      std::vector<double> y(outputs(l));
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] = parameters[bias(l) + c];
        for (size_t k = 0; k < inputs(l); ++k)
          y[c] += tensors[l][k] * parameters[weight(l) + k * y.size() + c];
        if (l + 1 < layers())
          y[c] = std::max(y[c], 0.0);
      }
      tensors.push_back(y);
    }
    return tensors;
  }

  static std::vector<double> softmax(const std::vector<double>& z) {
    double sum = 0;
    for (auto value : z)
      sum += std::exp(value);
    std::vector<double> p;
    for (auto value : z)
      p.push_back(std::exp(value) / sum);
    return p;
  }

  double loss() const {
    double sum = 0;
    for (size_t row = 0; row < problem.labels.size(); ++row) {
      auto p = softmax(forward(row).back());
      sum -= std::log(p[static_cast<size_t>(problem.labels[row])]);
    }
    return sum;
  }

  std::vector<double> gradient() const {
    std::vector<double> result(problem.layout.total, 0.0);
    for (size_t row = 0; row < problem.labels.size(); ++row) {
      auto tensors = forward(row);
      auto delta = softmax(tensors.back());
      delta[static_cast<size_t>(problem.labels[row])] -= 1;
      for (auto l = layers(); l-- > 0;) {
        std::vector<double> next(inputs(l), 0.0);
        for (size_t c = 0; c < delta.size(); ++c) {
          result[bias(l) + c] += delta[c];
          for (size_t k = 0; k < inputs(l); ++k) {
            auto w = weight(l) + k * delta.size() + c;
            result[w] += tensors[l][k] * delta[c];
            if (l > 0 && tensors[l][k] > 0)
              next[k] += delta[c] * parameters[w];
          }
        }
        delta = next;
      }
    }
    return result;
  }
};

Buffer poisoned(size_t count) {
  Buffer result(count);
  result.fill(not_a_number);
  return result;
}

bool same_bits(const Buffer& a, const Buffer& b) {
  return a.size() == b.size()
         && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const DeviceId cpu{};

} // namespace

BOOST_AUTO_TEST_CASE(the_reference_agrees_with_central_differences) {
  Problem problem("mlp:5-7-4-3", 4);
  Reference reference(problem);
  auto gradient = reference.gradient();
  for (uint32_t i = 0; i < problem.graph.parameters.size(); ++i)
    for (uint64_t k = 0; k < problem.graph.parameters[i].size(); ++k) {
      auto at = problem.layout.offsets[i] + k;
      auto shifted = reference;
      constexpr double h = 1e-6;
      shifted.parameters[at] += h;
      auto above = shifted.loss();
      shifted.parameters[at] -= 2 * h;
      auto below = shifted.loss();
      BOOST_REQUIRE(
        within(central_difference, (above - below) / (2 * h), gradient[at]));
    }
}

BOOST_AUTO_TEST_CASE(gradient_and_loss_follow_the_float64_reference) {
  for (const auto* model :
       {"mlp:1-1", "mlp:1-1-1", "mlp:7-3", "mlp:13-1-5", "mlp:31-17-11-2",
        "mlp:64-48-32-10", "mlp:97-130-61-17-3"})
    for (uint32_t rows : {1u, 2u, 3u, 16u, 37u}) {
      BOOST_TEST_CONTEXT(model << " with " << rows << " rows") {
        Problem problem(model, rows);
        Reference reference(problem);
        auto replica = make_replica(problem.graph, cpu, rows + 2);
        auto gradient = poisoned(problem.layout.total);
        auto stats = replica->gradient(problem.parameters.data(),
                                       problem.batch(), gradient.data());
        BOOST_TEST(within(float32_sum, stats.loss_sum, reference.loss()));
        auto want = reference.gradient();
        for (uint32_t i = 0; i < problem.graph.parameters.size(); ++i) {
          auto offset = problem.layout.offsets[i];
          auto size = problem.graph.parameters[i].size();
          check_within(float32_sum, gradient.data() + offset,
                       want.data() + offset, size);
          // The gap after the parameter is left alone.
          for (auto k = offset + size; k % 16 != 0; ++k)
            BOOST_REQUIRE(std::isnan(gradient.data()[k]));
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(evaluate_gives_the_loss_hits_and_best_classes) {
  Problem problem("mlp:12-9-4", 25);
  Reference reference(problem);
  auto replica = make_replica(problem.graph, cpu, 25);
  std::vector<int32_t> predictions(25, -1);
  std::vector<float> outputs(25 * problem.graph.outputs(), -9);
  BOOST_REQUIRE(outputs.size() == 100u);
  auto stats = replica->evaluate(problem.parameters.data(), problem.batch(),
                                 {predictions.data(), outputs.data()});
  BOOST_TEST(within(float32_sum, stats.loss_sum, reference.loss()));
  uint64_t correct = 0;
  for (size_t row = 0; row < 25; ++row) {
    auto logits = reference.forward(row).back();
    auto best = std::max_element(logits.begin(), logits.end());
    BOOST_TEST(predictions[row] == best - logits.begin());
    for (size_t i = 0; i < 4; ++i)
      BOOST_TEST(within(float32_sum, outputs[4 * row + i], logits[i]));
    correct += predictions[row] == problem.labels[row];
  }
  BOOST_TEST(stats.correct == correct);
  auto gradient = poisoned(problem.layout.total);
  auto trained = replica->gradient(problem.parameters.data(), problem.batch(),
                                   gradient.data());
  BOOST_TEST(trained.loss_sum == stats.loss_sum);
  BOOST_TEST(trained.correct == stats.correct);
}

BOOST_AUTO_TEST_CASE(evaluate_takes_no_labels_or_no_predictions) {
  Problem problem("mlp:12-9-4", 6);
  auto replica = make_replica(problem.graph, cpu, 6);
  std::vector<int32_t> with(6, -1);
  std::vector<int32_t> without(6, -1);
  replica->evaluate(problem.parameters.data(), problem.batch(),
                    {with.data(), nullptr});
  auto unlabelled = problem.batch();
  unlabelled.labels = nullptr;
  auto stats = replica->evaluate(problem.parameters.data(), unlabelled,
                                 {without.data(), nullptr});
  BOOST_TEST(stats.loss_sum == 0.0);
  BOOST_TEST(stats.correct == 0u);
  BOOST_TEST(with == without, boost::test_tools::per_element());
  BOOST_TEST(
    replica->evaluate(problem.parameters.data(), problem.batch()).loss_sum
    > 0.0);
}

BOOST_AUTO_TEST_CASE(bits_depend_on_the_batch_alone) {
  for (uint32_t rows : {1u, 5u, 16u, 64u}) {
    Problem problem("mlp:83-70-33-10", rows);
    auto first = poisoned(problem.layout.total);
    auto replica = make_replica(problem.graph, cpu, rows);
    auto stats = replica->gradient(problem.parameters.data(), problem.batch(),
                                   first.data());
    // After other calls, of other sizes.
    Problem other("mlp:83-70-33-10", 3);
    auto larger = make_replica(problem.graph, cpu, 128);
    auto second = poisoned(problem.layout.total);
    larger->gradient(other.parameters.data(), other.batch(), second.data());
    larger->evaluate(other.parameters.data(), other.batch());
    second.fill(not_a_number);
    auto again = larger->gradient(problem.parameters.data(), problem.batch(),
                                  second.data());
    BOOST_TEST(same_bits(first, second));
    BOOST_TEST(stats.loss_sum == again.loss_sum);
    // At other addresses.
    for (size_t offset = 0; offset < 16; ++offset) {
      std::vector<float> moved(problem.features.size() + 16);
      std::copy(problem.features.begin(), problem.features.end(),
                moved.begin() + static_cast<ptrdiff_t>(offset));
      auto batch = problem.batch();
      batch.features = moved.data() + offset;
      second.fill(not_a_number);
      larger->gradient(problem.parameters.data(), batch, second.data());
      BOOST_TEST(same_bits(first, second));
    }
    // On another thread.
    second.fill(not_a_number);
    std::thread([&] {
      prepare_compute_thread();
      make_replica(problem.graph, cpu, rows)
        ->gradient(problem.parameters.data(), problem.batch(), second.data());
    }).join();
    BOOST_TEST(same_bits(first, second));
  }
}

BOOST_AUTO_TEST_CASE(two_threads_at_once_do_not_disturb_each_other) {
  Problem problem("mlp:83-70-33-10", 16);
  auto first = poisoned(problem.layout.total);
  make_replica(problem.graph, cpu, 16)
    ->gradient(problem.parameters.data(), problem.batch(), first.data());
  bool equal[3] = {};
  std::vector<std::thread> threads;
  for (auto& result : equal)
    threads.emplace_back([&] {
      prepare_compute_thread();
      auto replica = make_replica(problem.graph, cpu, 16);
      result = true;
      for (int round = 0; round < 20; ++round) {
        auto gradient = poisoned(problem.layout.total);
        replica->gradient(problem.parameters.data(), problem.batch(),
                          gradient.data());
        result = result && same_bits(first, gradient);
      }
    });
  for (auto& thread : threads)
    thread.join();
  for (auto result : equal)
    BOOST_TEST(result);
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_finite_shows_in_the_loss) {
  for (auto bad : {not_a_number, std::numeric_limits<float>::infinity()}) {
    Problem problem("mlp:12-9-4", 6);
    problem.features[14] = bad;
    auto replica = make_replica(problem.graph, cpu, 6);
    auto gradient = poisoned(problem.layout.total);
    auto stats = replica->gradient(problem.parameters.data(), problem.batch(),
                                   gradient.data());
    BOOST_TEST(!std::isfinite(stats.loss_sum));
  }
}

BOOST_AUTO_TEST_CASE(large_logits_give_a_finite_loss) {
  Problem problem("mlp:2-3", 2);
  for (auto& value : problem.features)
    value *= 1000;
  auto replica = make_replica(problem.graph, cpu, 2);
  auto gradient = poisoned(problem.layout.total);
  auto stats = replica->gradient(problem.parameters.data(), problem.batch(),
                                 gradient.data());
  BOOST_TEST(std::isfinite(stats.loss_sum));
  BOOST_TEST(stats.loss_sum >= 0.0);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_an_input_error) {
  auto graph = make_graph("mlp:2-2");
  DeviceId missing{DeviceId::Kind::cuda, cuda_device_count()};
  BOOST_CHECK_EXCEPTION(
    make_replica(graph, missing, 1), InputError, [&](const InputError& error) {
      return std::string(error.what()).find(to_string(missing) + ": ") == 0;
    });
}

BOOST_AUTO_TEST_CASE(devices_and_libraries_have_names) {
  BOOST_TEST(to_string(cpu) == "cpu:0");
  BOOST_TEST(to_string(DeviceId{DeviceId::Kind::cuda, 3}) == "cuda:3");
  const auto onednn = kernels::onednn_version(); // empty without it
  BOOST_TEST(!library_versions().empty());
  BOOST_TEST(library_versions().find(onednn) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(graph_test)

namespace {

std::vector<float> initial(const Graph& graph, uint64_t seed,
                           uint32_t parameter) {
  std::vector<float> values(graph.parameters[parameter].size());
  initialize(graph, seed, parameter, 0, values.data(), values.size());
  return values;
}

bool says(const std::string& what, const UsageError& error) {
  return std::string(error.what()).find(what) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_CASE(an_mlp_has_a_weight_and_a_bias_per_layer) {
  auto graph = make_graph("mlp:784-512-256-10");
  BOOST_TEST(graph.features() == 784u);
  BOOST_TEST(graph.classes() == 10u);
  BOOST_REQUIRE_EQUAL(graph.parameters.size(), 6u);
  BOOST_TEST(graph.parameters[0].name == "dense_0/weight");
  BOOST_TEST((graph.parameters[0].shape == std::vector<uint64_t>{784, 512}));
  BOOST_TEST(graph.parameters[0].fan_in == 784u);
  BOOST_TEST(graph.parameters[5].name == "dense_2/bias");
  BOOST_TEST((graph.parameters[5].shape == std::vector<uint64_t>{10}));
  BOOST_REQUIRE_EQUAL(graph.ops.size(), 4u);
  BOOST_TEST((graph.ops[1].attributes.activation == Activation::relu));
  BOOST_TEST((graph.ops[2].attributes.activation == Activation::none));
  BOOST_TEST((graph.ops[3].kind == OpKind::softmax_cross_entropy));
  BOOST_TEST(graph.ops[3].inputs[0] == 3u);
  BOOST_TEST(graph.parameter_count() == 535'818u);
  BOOST_TEST(graph.flops_per_sample()
             == 2u * (2 * 784 * 512 + 3 * 512 * 256 + 3 * 256 * 10));
}

BOOST_AUTO_TEST_CASE(every_parameter_starts_at_a_cache_line) {
  auto graph = make_graph("mlp:3-5-1");
  Layout layout(graph);
  BOOST_TEST((layout.offsets == std::vector<uint64_t>{0, 16, 32, 48}));
  BOOST_TEST(layout.total == 64u);
}

BOOST_AUTO_TEST_CASE(a_bad_model_is_a_usage_error_that_names_it) {
  for (const auto* model :
       {"mlp", "mlp:", "mlp:784", "mlp:784-", "mlp:784--10", "mlp:-784-10",
        "mlp:784-0-10", "mlp:784-x", "mlp:784-10 ", "mlp:+4-2",
        "mlp:99999999999999999999-10", "mlp:2000000-10", "perceptron:3-2", "",
        "mlp:1000000-1000000"})
    BOOST_CHECK_EXCEPTION(make_graph(model), UsageError,
                          [&](const UsageError& error) {
                            return says(std::string("model ") + model, error);
                          });
}

BOOST_AUTO_TEST_CASE(any_slice_of_initial_values_has_the_same_bits) {
  auto graph = make_graph("mlp:37-29-3");
  auto whole = initial(graph, 7, 0);
  for (size_t begin = 0; begin < whole.size(); begin += 13)
    for (size_t count : {size_t{1}, size_t{16}, whole.size() - begin}) {
      count = std::min(count, whole.size() - begin);
      std::vector<float> part(count, NAN);
      initialize(graph, 7, 0, begin, part.data(), count);
      BOOST_REQUIRE_EQUAL(std::memcmp(part.data(), whole.data() + begin,
                                      count * sizeof(float)),
                          0);
    }
}

BOOST_AUTO_TEST_CASE(initial_values_are_pinned) {
  // Checkpoints and hashes of weights of another version rely on these.
  auto values = initial(make_graph("mlp:6-4-2"), 1, 0);
  BOOST_TEST(values[0] == 0x1.ebb61p-4f);
  BOOST_TEST(values[1] == -0x1.1d26dcp-2f);
  BOOST_TEST(values[23] == -0x1.30f196p-1f);
}

BOOST_AUTO_TEST_CASE(initial_values_are_uniform_within_their_bound) {
  auto graph = make_graph("mlp:500-200-10");
  auto values = initial(graph, 3, 0);
  auto bound = std::sqrt(6.0 / 500);
  double sum = 0;
  double squares = 0;
  for (auto value : values) {
    BOOST_REQUIRE(std::abs(value) <= bound);
    sum += value;
    squares += double{value} * value;
  }
  auto count = static_cast<double>(values.size());
  // Mean 0 and variance b²/3, each within five standard deviations.
  BOOST_TEST(std::abs(sum / count) < 5 * bound / std::sqrt(3 * count));
  auto variance = bound * bound / 3;
  BOOST_TEST(std::abs(squares / count - variance)
             < 5 * variance * std::sqrt(0.8 / count));
  for (auto value : initial(graph, 3, 1))
    BOOST_REQUIRE_EQUAL(value, 0.0f);
}

BOOST_AUTO_TEST_CASE(seeds_and_parameters_have_streams_of_their_own) {
  auto graph = make_graph("mlp:8-8-8");
  auto reference = initial(graph, 0, 0);
  for (auto other : {initial(graph, 1, 0), initial(graph, 0, 2)}) {
    size_t equal = 0;
    for (size_t i = 0; i < other.size(); ++i)
      equal += other[i] == reference[i];
    BOOST_TEST(equal == 0u);
  }
}

BOOST_AUTO_TEST_CASE(flops_count_products_of_both_passes) {
  auto sample = [](Shape features) {
    SampleShape sample;
    sample.features = std::move(features);
    sample.classes = 3;
    return sample;
  };
  // Forward, the weight's gradient and, of the second, the input's.
  auto graph =
    build_graph({"tiny",
                 sample(Shape{6, 5, 2}),
                 {{"conv2d", "conv", {}, {{"units", 4}, {"kernel", 3}}},
                  {"reshape", "flat"},
                  {"dense", "logits", {}, {{"units", 3}}},
                  {"softmax_cross_entropy"}}});
  const uint64_t conv = 2 * (4 * 3 * 4) * (3 * 3 * 2);
  const uint64_t dense = 2 * 48 * 3;
  BOOST_TEST(graph.flops_of(0) == 2 * conv);
  BOOST_TEST(graph.flops_of(1) == 0u);
  BOOST_TEST(graph.flops_of(2) == 3 * dense);
  BOOST_TEST(graph.flops_per_sample() == 2 * conv + 3 * dense);
  // Pairs of positions that see each other, by query and by value.
  auto attention = [&](bool causal) {
    return build_graph({"tiny",
                        sample(Shape{7, 4}),
                        {{"dense", "qkv", {}, {{"units", 12}}},
                         {"attention", "op", {}, {{"causal", causal}}},
                         {"reshape", "flat"},
                         {"dense", "logits", {}, {{"units", 3}}},
                         {"softmax_cross_entropy"}}})
      .flops_of(1);
  };
  BOOST_TEST(attention(false) == 3u * 2 * 2 * 49 * 4);
  BOOST_TEST(attention(true) == 3u * 2 * 2 * 28 * 4);
}

BOOST_AUTO_TEST_SUITE_END()

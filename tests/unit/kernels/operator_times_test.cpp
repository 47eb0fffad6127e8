#include "kernels/engine/operator_times.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(operator_times_test)

namespace {

SampleShape timed_sample(const std::string& model) {
  SampleShape sample;
  if (model.starts_with("transformer") || model.starts_with("llama")) {
    sample.vocabulary = 19;
    sample.label = LabelKind::tokens;
  } else if (model == "dlrm" || model == "wide_deep") {
    sample.features = {5};
    sample.ids = 4;
    sample.vocabulary = 23;
    sample.label = LabelKind::binary;
  } else if (!model.starts_with("mlp")) {
    sample.features = {12, 12, 3};
    sample.classes = 5;
  }
  return sample;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_operator_of_every_model_is_measured) {
  for (const std::string model :
       {"mlp:20-24-17-16-5", "cnn", "resnet8", "transformer:L2-H2-D16-T8-P0.1",
        "llama:L2-H2-K1-D16-T8-P0.1", "dlrm", "wide_deep"}) {
    const auto graph = make_graph(model, timed_sample(model));
    const auto times = measure_operators(graph, 4, Precision::float32);
    BOOST_REQUIRE(times.size() == graph.ops.size());
    for (size_t op = 0; op < times.size(); ++op)
      if (graph.flops_of(op) > 0) {
        BOOST_TEST(times[op].forward > 0u, graph.ops[op].name);
        BOOST_TEST(times[op].backward > 0u, graph.ops[op].name);
        BOOST_TEST(times[op].inputs > 0u, graph.ops[op].name);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_larger_operator_takes_longer) {
  const auto graph = make_graph("mlp:64-64-1024-1024-10");
  const auto times = measure_operators(graph, 32, Precision::float32);
  // 256 times as many products.
  BOOST_TEST(times[2].forward > 8 * times[0].forward);
  BOOST_TEST(times[2].backward > 8 * times[0].backward);
  BOOST_TEST(times[2].weights > 8 * times[0].weights);
}

BOOST_AUTO_TEST_CASE(operators_that_are_alike_take_the_same) {
  const auto graph = make_graph("mlp:64-64-64-64-10");
  const auto times = measure_operators(graph, 8, Precision::float32);
  BOOST_TEST(times[1].forward == times[2].forward);
  BOOST_TEST(times[1].weights == times[2].weights);
}

BOOST_AUTO_TEST_CASE(layers_that_wait_say_how_long) {
  const auto graph = make_graph("sleep:5ms+7ms-3");
  const auto times = measure_operators(graph, 8, Precision::float32);
  BOOST_TEST(times[0].forward == 5'000'000u);
  BOOST_TEST(times[1].forward == 7'000'000u);
  BOOST_TEST(times[1].backward == 14'000'000u);
  BOOST_TEST(times[1].inputs + times[1].weights == times[1].backward);
}

BOOST_AUTO_TEST_SUITE_END()

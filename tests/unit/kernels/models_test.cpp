#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/drawn_problem.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(models_test)

namespace {

using test::clicks;

/// Samples of the data sets that models are for.
SampleShape digits() {
  SampleShape sample;
  sample.features = {28, 28, 1};
  sample.classes = 10;
  return sample;
}

SampleShape text(uint32_t vocabulary) {
  SampleShape sample;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::tokens;
  return sample;
}

SampleShape sparse(uint32_t ids, uint32_t vocabulary) {
  SampleShape sample;
  sample.features = {ids};
  sample.ids = ids;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::binary;
  return sample;
}

const Op& op_named(const Graph& graph, const std::string& name) {
  for (const auto& op : graph.ops)
    if (op.name == name)
      return op;
  BOOST_FAIL("no operator " << name);
  return graph.ops.front();
}

const Shape& shape_of(const Graph& graph, const std::string& name) {
  return graph.values[op_named(graph, name).output].shape;
}

const Parameter& parameter(const Graph& graph, const std::string& name) {
  for (const auto& one : graph.parameters)
    if (one.name == name)
      return one;
  BOOST_FAIL("no parameter " << name);
  return graph.parameters.front();
}

size_t count(const Graph& graph, OpKind kind) {
  return static_cast<size_t>(
    std::count_if(graph.ops.begin(), graph.ops.end(),
                  [&](const Op& op) { return op.kind == kind; }));
}

constexpr const char* all_models[] = {"mlp:784-512-256-10",
                                      "cnn",
                                      "resnet8",
                                      "resnet20",
                                      "transformer:L4-H4-D128-T64",
                                      "transformer:L2-H2-D16-T8-P0.1",
                                      "gpt2:L2-H2-D16-T8",
                                      "llama:L2-H4-K2-D16-T8-P0.1",
                                      "dlrm",
                                      "wide_deep",
                                      "logreg"};

bool says(const std::string& what, const InputError& error) {
  const std::string message = error.what();
  BOOST_TEST_MESSAGE(message);
  return message.find(what) != std::string::npos
         && message.find('\n') == std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_built_in_model_makes_a_graph_without_data) {
  for (const auto* model : all_models) {
    BOOST_TEST_CONTEXT(model) {
      auto graph = make_graph(model);
      BOOST_TEST(graph.text == model);
      BOOST_TEST(graph.parameter_count() > 0u);
      BOOST_TEST(graph.sample.known());
    }
  }
}

BOOST_AUTO_TEST_CASE(an_mlp_flattens_images_and_keeps_its_parameters) {
  auto plain = make_graph("mlp:784-32-10");
  auto graph = make_graph("mlp:784-32-10", digits());
  BOOST_TEST(shape_of(graph, "flatten") == Shape{784},
             boost::test_tools::per_element());
  BOOST_TEST(graph.features() == 784u);
  BOOST_REQUIRE_EQUAL(graph.parameters.size(), plain.parameters.size());
  for (size_t i = 0; i < plain.parameters.size(); ++i) {
    BOOST_TEST(graph.parameters[i].name == plain.parameters[i].name);
    BOOST_TEST((graph.parameters[i].shape == plain.parameters[i].shape));
  }
  BOOST_TEST(graph.flops_per_sample() == plain.flops_per_sample());
}

BOOST_AUTO_TEST_CASE(a_cnn_fits_itself_to_images_and_classes) {
  auto graph = make_graph("cnn", digits());
  BOOST_TEST((shape_of(graph, "conv_1") == Shape{28, 28, 16}));
  BOOST_TEST((shape_of(graph, "pool_2") == Shape{7, 7, 32}));
  BOOST_TEST((shape_of(graph, "hidden") == Shape{128}));
  BOOST_TEST(graph.parameter_count()
             == 25u * 16 + 16 + 25 * 16 * 32 + 32 + 1568 * 128 + 128 + 1290);
  // he_uniform: up to sqrt(6 / (25 * 16)); fan_in_uniform: to 1 / sqrt(1568).
  auto largest = [&](uint32_t index) {
    std::vector<float> weights(graph.parameters[index].size());
    initialize(graph, 0, index, 0, weights.data(), weights.size());
    float most = 0;
    for (auto weight : weights)
      most = std::max(most, std::abs(weight));
    return most;
  };
  BOOST_TEST(largest(2) <= 0.122475f);
  BOOST_TEST(largest(2) > 0.1212f);
  BOOST_TEST(largest(4) <= 0.025255f);
  BOOST_TEST(largest(4) > 0.025f);
  auto sample = digits();
  sample.features = {32, 32, 3};
  sample.classes = 7;
  graph = make_graph("cnn", sample);
  BOOST_TEST(graph.classes() == 7u);
  BOOST_TEST((parameter(graph, "conv_1/weight").shape == Shape{5, 5, 3, 16}));
  BOOST_TEST((shape_of(graph, "pool_2") == Shape{8, 8, 32}));
}

BOOST_AUTO_TEST_CASE(resnets_have_6_n_plus_2_layers_and_published_sizes) {
  auto graph = make_graph("resnet20");
  // Those with weights, shortcuts not counted.
  BOOST_TEST(count(graph, OpKind::conv2d) + 1 - 2 == 20u);
  BOOST_TEST((shape_of(graph, "block_0_2.add") == Shape{32, 32, 16}));
  BOOST_TEST((shape_of(graph, "block_2_2.add") == Shape{8, 8, 64}));
  // 0.27 million (table 6 of the paper), and two shortcuts' projections.
  uint64_t trained = 0;
  for (const auto& one : graph.parameters)
    if (one.role == ParameterRole::trained)
      trained += one.size();
  BOOST_TEST(trained == 272'474u);
  BOOST_TEST(count(make_graph("resnet8"), OpKind::conv2d) + 1 - 2 == 8u);
  BOOST_TEST(!parameter(graph, "stem.norm/mean").decays);
  BOOST_TEST(
    (parameter(graph, "stem.norm/variance").role == ParameterRole::statistic));
}

BOOST_AUTO_TEST_CASE(a_transformer_ties_its_head_to_the_table_of_tokens) {
  auto graph = make_graph("transformer:L4-H4-D128-T64", text(65));
  BOOST_TEST(graph.ids() == 64u);
  BOOST_TEST(graph.labels() == 64u);
  BOOST_TEST(graph.classes() == 65u);
  // Per block 12 d^2 and two norms; table, positions and the last norm.
  BOOST_TEST(graph.parameter_count()
             == 4u * (12 * 128 * 128 + 2 * 128) + (65 + 64 + 1) * 128);
  const auto& head = op_named(graph, "logits");
  const auto& tokens = op_named(graph, "tokens");
  BOOST_REQUIRE_EQUAL(head.parameters.size(), 1u);
  BOOST_TEST(head.parameters[0] == tokens.parameters[0]);
  BOOST_TEST(head.attributes.transposed);
  // The head's gradient touches every row.
  BOOST_TEST(!parameter(graph, "tokens/table").by_rows);
  const auto& narrow = parameter(graph, "block_3.down/weight");
  BOOST_TEST((narrow.initializer == Initializer::normal));
  BOOST_TEST(narrow.scale == 0.02 / std::sqrt(8.0));
  BOOST_TEST(count(graph, OpKind::dropout) == 0u);
  auto dropping = make_graph("transformer:L4-H4-D128-T64-P0.1", text(65));
  BOOST_TEST(count(dropping, OpKind::dropout) == 9u);
  BOOST_TEST(op_named(dropping, "dropout").attributes.rate == 0.1f);
}

BOOST_AUTO_TEST_CASE(a_llama_shares_keys_and_has_a_head_of_its_own) {
  auto graph = make_graph("llama:L3-H4-K2-D64-T32", text(65));
  // Per block: projections to 4 + 2 + 2 heads and back, SwiGLU of 192 (8/3 of
  // the width, in 32s), two norms; the table, the head and the last norm.
  BOOST_TEST(graph.parameter_count()
             == 3u * (64 * 128 + 64 * 64 + 3 * 64 * 192 + 2 * 64) + 2 * 65 * 64
                  + 64);
  const auto& attention = op_named(graph, "block_2.attention");
  BOOST_TEST(attention.attributes.heads == 4u);
  BOOST_TEST(attention.attributes.key_heads() == 2u);
  BOOST_TEST((shape_of(graph, "block_2.rotary") == Shape{32, 128}));
  BOOST_TEST((shape_of(graph, "block_2.attention") == Shape{32, 64}));
  BOOST_TEST((shape_of(graph, "block_2.swiglu") == Shape{32, 192}));
  BOOST_TEST(!parameter(graph, "logits/weight").by_rows);
  BOOST_TEST(parameter(graph, "tokens/table").by_rows);
  graph = make_graph("llama:L1-H4-D64-T32-F80", text(65));
  BOOST_TEST(op_named(graph, "block_0.attention").attributes.key_heads() == 4u);
  BOOST_TEST((shape_of(graph, "block_0.swiglu") == Shape{32, 80}));
  BOOST_CHECK_EXCEPTION(
    make_graph("llama:L1-H4-D4-T8"), UsageError, [](const UsageError& error) {
      return says("rotary turns pairs of elements, but heads have 1", error);
    });
}

BOOST_AUTO_TEST_CASE(gpt2_has_biases_and_the_approximated_gelu) {
  auto graph = make_graph("gpt2:L2-H4-D64-T32", text(65));
  BOOST_TEST(graph.parameter_count()
             == 2u * (12 * 64 * 64 + 13 * 64) + (65 + 32 + 2) * 64);
  BOOST_TEST((op_named(graph, "block_1.up").attributes.activation
              == Activation::gelu_tanh));
}

BOOST_AUTO_TEST_CASE(dlrm_joins_features_and_ids_by_dot_products) {
  auto graph = make_graph("dlrm", clicks(13, 26, 2600));
  BOOST_TEST((shape_of(graph, "vectors") == Shape{27, 16}));
  BOOST_TEST((shape_of(graph, "interaction") == Shape{351}));
  BOOST_TEST((shape_of(graph, "pairs") == Shape{367}));
  BOOST_TEST(graph.classes() == 2u);
  BOOST_TEST(parameter(graph, "embedding/table").by_rows);
  BOOST_TEST(parameter(graph, "embedding/table").scale == 0.1);
  BOOST_TEST(graph.features() == 13u);
  BOOST_TEST(graph.ids() == 26u);
}

BOOST_AUTO_TEST_CASE(wide_and_deep_are_added_before_the_loss) {
  auto graph = make_graph("wide_deep", clicks(5, 3, 300));
  BOOST_TEST((shape_of(graph, "both") == Shape{5 + 3 * 16}));
  BOOST_TEST(op_named(graph, "sum").inputs.size() == 3u);
}

BOOST_AUTO_TEST_CASE(logreg_takes_weighted_ids_plain_ids_or_features) {
  auto weighted = make_graph("logreg", sparse(22, 127));
  BOOST_TEST(op_named(weighted, "weights").inputs.size() == 2u);
  BOOST_TEST(weighted.parameter_count() == 128u);
  auto both = make_graph("logreg", clicks(13, 26, 2600));
  BOOST_TEST(both.parameter_count() == 2600u + 13 + 1);
  auto sample = sparse(9, 50);
  sample.label = LabelKind::classes;
  sample.classes = 3;
  auto classes = make_graph("logreg", sample);
  BOOST_TEST(classes.classes() == 3u);
  BOOST_TEST(classes.parameter_count() == 153u);
  auto dense = make_graph("logreg", digits());
  BOOST_TEST(dense.parameter_count() == 7850u);
  sample.features.clear();
  BOOST_TEST(make_graph("logreg", sample).parameter_count() == 153u);
}

BOOST_AUTO_TEST_CASE(samples_that_a_model_does_not_take_are_refused) {
  const auto numbers = [] {
    auto sample = digits();
    sample.label = LabelKind::number;
    sample.classes = 0;
    return sample;
  }();
  struct Case {
    const char* model;
    SampleShape sample;
    const char* message;
  };
  const Case cases[] = {
    {"cnn", sparse(22, 127), "model cnn takes images, but the data has"},
    {"cnn", text(65), "takes images, and the data is text; use a language"},
    {"resnet20", clicks(13, 26, 26), "features [13] and 26 ids"},
    {"transformer:L1-H1-D4-T4", digits(), "takes text"},
    {"dlrm", digits(), "takes ids, with or without features [n]"},
    {"wide_deep", text(9), "takes ids, with or without features [n]"},
    {"logreg", numbers, "takes samples with classes"},
    {"logreg", text(9), "takes samples with classes"},
    {"mlp:784-10", text(9), "takes features"},
    {"mlp:100-10", digits(), "takes 100 inputs but the data has 784"},
    {"mlp:784-9", digits(), "has 9 outputs but the data has 10 classes"},
    {"mlp:784-2", numbers, "2 labels but a sample has 1"},
    {"cnn", numbers, "units is \"classes\", but a sample has none"},
  };
  for (const auto& one : cases) {
    BOOST_TEST_CONTEXT(one.model << " with " << one.message) {
      BOOST_CHECK_EXCEPTION(make_graph(one.model, one.sample), InputError,
                            [&](const InputError& error) {
                              // It takes data to find it out.
                              return says(one.message, error)
                                     && dynamic_cast<const UsageError*>(&error)
                                          == nullptr;
                            });
    }
  }
  BOOST_TEST(make_graph("mlp:784-1", numbers).classes() == 0u);
}

BOOST_AUTO_TEST_CASE(a_text_that_names_no_model_says_what_there_is) {
  struct Case {
    const char* model;
    const char* message;
  };
  const Case cases[] = {
    {"perceptron", "unknown model; use mlp:784-512-256-10, cnn"},
    {"resnet21", "unknown model"},
    {"resnet", "unknown model"},
    {"cnn:3", "'3' is unknown; cnn takes nothing after it"},
    {"cnn:", "'' is unknown"},
    {"transformer", "L and its number are missing"},
    {"transformer:L4-H4-D128", "T and its number are missing"},
    {"transformer:L4-H4-D128-T0", "'T0' is not T and a number from 1"},
    {"transformer:L4-H4-D128-T64-X3", "'X3' is unknown; known are LHDTP"},
    {"transformer:L4-H4-D128-T64-T65", "T is there twice"},
    {"transformer:L4-H3-D128-T64", "3 heads do not divide the width 128"},
    {"transformer:L4-H4-D128-T64-P1", "is not P and a fraction"},
    {"transformer:L4-H4-D128-T64-Pnan", "is not P and a fraction"},
    {"llama:L4-H4-K3-D128-T64", "4 heads have to divide the width 128, and 3"},
    {"llama:L4-H4-K2-D128", "T and its number are missing; write e.g. llama:"},
    {"gpt2:L4-H3-D128-T64", "3 heads do not divide the width 128"},
    {"sleep:20", "expected sleep:Tms"},
    {"sleep:-1ms", "expected sleep:Tms"},
    {"sleep:60001ms", "expected sleep:Tms"},
    {"sleep:0ms-0", "expected sleep:Tms"},
    {"sleep:0ms-4-4-4", "expected sleep:Tms"},
    {"sleep:1ms+", "expected sleep:Tms"},
    {"sleep:1ms+2", "expected sleep:Tms"},
    {"sleep:1ms+2ms-3-4", "expected sleep:Tms"},
    {"count:1ms+2ms", "expected sleep:Tms"},
  };
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.model) {
      BOOST_CHECK_EXCEPTION(
        make_graph(one.model), UsageError, [&](const UsageError& error) {
          return says(std::string{"--model "} + one.model, error)
                 && says(one.message, error);
        });
    }
}

BOOST_AUTO_TEST_CASE(weights_and_tables_decay_but_biases_and_norms_do_not) {
  for (const auto* model : all_models)
    for (const auto& one : make_graph(model).parameters)
      BOOST_TEST(one.decays == (one.shape.size() >= 2), one.name);
}

BOOST_AUTO_TEST_SUITE_END()

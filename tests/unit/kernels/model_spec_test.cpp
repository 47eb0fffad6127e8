#include "kernels/base/error.hpp"
#include "kernels/graph/model_spec.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(model_spec_test)

namespace {

using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

SampleShape features(Shape shape) {
  SampleShape sample;
  sample.features = std::move(shape);
  sample.classes = 3;
  return sample;
}

SampleShape ids(uint32_t count, uint32_t vocabulary, Shape shape = {}) {
  auto sample = features(std::move(shape));
  sample.ids = count;
  sample.vocabulary = vocabulary;
  return sample;
}

/// Operators, then what makes any shape three logits and a loss.
ModelSpec closed(SampleShape sample, std::vector<OpSpec> operators) {
  operators.push_back({"reshape", "flat"});
  operators.push_back({"dense", "logits", {}, {{"units", "classes"}}});
  operators.push_back({"softmax_cross_entropy"});
  return {"tiny", std::move(sample), std::move(operators)};
}

/// The shape of an operator's output, for one input of a shape.
Shape shape_of(const Shape& input, const char* kind,
               const Attributes& attributes = {}) {
  auto graph =
    build_graph(closed(features(input), {{kind, "op", {}, attributes}}));
  return graph.values[graph.ops[0].output].shape;
}

/// Shapes of an operator's parameters.
std::vector<Shape> parameters_of(const Shape& input, const char* kind,
                                 const Attributes& attributes = {}) {
  auto graph =
    build_graph(closed(features(input), {{kind, "op", {}, attributes}}));
  std::vector<Shape> result;
  for (auto i : graph.ops[0].parameters)
    result.push_back(graph.parameters[i].shape);
  return result;
}

void check_refused(const ModelSpec& spec, const std::string& message) {
  BOOST_CHECK_EXCEPTION(build_graph(spec), UsageError,
                        [&](const UsageError& error) {
                          const std::string what = error.what();
                          BOOST_TEST_MESSAGE(what);
                          return what.find("model tiny: ") == 0
                                 && what.find(message) != std::string::npos
                                 && what.find('\n') == std::string::npos;
                        });
}

struct Misfit {
  SampleShape sample;
  std::vector<OpSpec> operators;
  const char* message;
};

std::vector<OpSpec> one(const char* kind, Attributes attributes = {}) {
  return {{kind, "op", {}, std::move(attributes)}};
}

void check_refused(const std::vector<Misfit>& misfits) {
  for (const auto& given : misfits)
    BOOST_TEST_CONTEXT(given.message) {
      check_refused(closed(given.sample, given.operators), given.message);
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(every_operator_of_one_input_infers_its_shape) {
  struct Case {
    Shape input;
    const char* kind;
    Attributes attributes;
    Shape output;
    std::vector<Shape> parameters;
  };
  const Case cases[] = {
    {{5}, "dense", {{"units", 7}}, {7}, {{5, 7}, {7}}},
    {{4, 5}, "dense", {{"units", 7}, {"bias", false}}, {4, 7}, {{5, 7}}},
    {{5}, "dense", {{"units", 7}, {"transposed", true}}, {7}, {{7, 5}, {7}}},
    {{9, 8, 2},
     "conv2d",
     {{"units", 4}, {"kernel", 3}},
     {7, 6, 4},
     {{3, 3, 2, 4}, {4}}},
    {{9, 8, 2},
     "conv2d",
     {{"units", 4}, {"kernel", 5}, {"padding", "same"}, {"bias", false}},
     {9, 8, 4},
     {{5, 5, 2, 4}}},
    {{9, 8, 4},
     "conv2d",
     {{"units", 6},
      {"kernel", 3},
      {"stride", 2},
      {"padding", 1},
      {"groups", 2}},
     {5, 4, 6},
     {{3, 3, 2, 6}, {6}}},
    {{9, 8, 2}, "max_pool", {{"kernel", 2}}, {4, 4, 2}, {}},
    {{9, 8, 2}, "max_pool", {{"kernel", 3}, {"stride", 1}}, {7, 6, 2}, {}},
    {{9, 8, 2},
     "average_pool",
     {{"kernel", 3}, {"stride", 2}, {"padding", 1}},
     {5, 4, 2},
     {}},
    {{9, 8, 2}, "average_pool", {}, {1, 1, 2}, {}},
    {{6, 4}, "batch_norm", {}, {6, 4}, {{4}, {4}, {4}, {4}}},
    {{6, 4}, "layer_norm", {}, {6, 4}, {{4}, {4}}},
    {{6, 4}, "layer_norm", {{"bias", false}}, {6, 4}, {{4}}},
    {{6, 4}, "rms_norm", {{"epsilon", 1e-6}}, {6, 4}, {{4}}},
    {{6, 4}, "activation", {{"activation", "silu"}}, {6, 4}, {}},
    {{6, 4}, "softmax", {}, {6, 4}, {}},
    {{6, 4}, "dropout", {{"rate", 0.5}}, {6, 4}, {}},
    {{6, 12}, "attention", {{"heads", 2}, {"causal", true}}, {6, 4}, {}},
    {{6, 4}, "interaction", {}, {15}, {}},
    {{6, 4}, "factorization", {}, {1}, {}},
    {{6, 4}, "slice", {{"axis", 1}, {"begin", 1}, {"end", 3}}, {6, 2}, {}},
    {{6, 4}, "slice", {{"begin", 2}}, {4, 4}, {}},
    {{6, 4}, "reshape", {{"shape", Shape{2, 12}}}, {2, 12}, {}},
    {{6, 4}, "reshape", {}, {24}, {}},
    {{2, 3, 5}, "transpose", {{"permutation", Shape{2, 0, 1}}}, {5, 2, 3}, {}},
    {{6, 4}, "bias", {}, {6, 4}, {{6, 4}}},
  };
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.kind << " of " << to_string(one.input)) {
      BOOST_TEST(to_string(shape_of(one.input, one.kind, one.attributes))
                 == to_string(one.output));
      BOOST_TEST(
        (parameters_of(one.input, one.kind, one.attributes) == one.parameters));
    }
}

BOOST_AUTO_TEST_CASE(operators_of_several_inputs_infer_their_shapes) {
  auto graph = build_graph(
    closed(features({4, 6}),
           {{"slice", "left", {"features"}, {{"axis", 1}, {"end", 2}}},
            {"slice", "right", {"features"}, {{"axis", 1}, {"begin", 2}}},
            {"concat", "all", {"left", "right"}, {{"axis", 1}}},
            {"add", "sum", {"all", "features", "all"}},
            {"multiply", "product", {"sum", "features"}}}));
  const char* want[] = {"[4, 2]", "[4, 4]", "[4, 6]", "[4, 6]", "[4, 6]"};
  for (size_t i = 0; i < std::size(want); ++i)
    BOOST_TEST(to_string(graph.values[graph.ops[i].output].shape) == want[i]);
}

BOOST_AUTO_TEST_CASE(ids_become_vectors_or_one_sum) {
  auto graph = build_graph(
    closed(ids(3, 50, {3}),
           {{"embedding", "vectors", {"ids"}, {{"width", 4}}},
            {"reshape", "row"},
            {"embedding_bag", "bag", {"ids", "features"}, {{"width", 12}}},
            {"add", "both", {"row", "bag"}}}));
  BOOST_TEST(to_string(graph.values[graph.ops[0].output].shape) == "[3, 4]");
  BOOST_TEST(to_string(graph.values[graph.ops[2].output].shape) == "[12]");
  BOOST_TEST(to_string(graph.parameters[0].shape) == "[50, 4]");
  BOOST_TEST(graph.parameters[0].by_rows);
  BOOST_TEST(graph.features() == 3u);
  BOOST_TEST(graph.ids() == 3u);
}

BOOST_AUTO_TEST_CASE(operators_without_names_are_numbered_by_kind) {
  auto graph = build_graph({"tiny",
                            features({5}),
                            {{"dense", "", {}, {{"units", 4}}},
                             {"activation", "", {}, {{"activation", "relu"}}},
                             {"dense", "", {}, {{"units", 3}}},
                             {"softmax_cross_entropy"}}});
  BOOST_TEST(graph.ops[0].name == "dense_0");
  BOOST_TEST(graph.ops[1].name == "activation_0");
  BOOST_TEST(graph.ops[2].name == "dense_1");
  BOOST_TEST(graph.ops[3].name == "loss");
  BOOST_TEST(graph.parameters[2].name == "dense_1/weight");
}

BOOST_AUTO_TEST_CASE(a_weight_can_be_shared_where_its_shape_fits) {
  const OpSpec owner{"dense", "a", {}, {{"units", 5}}};
  auto graph = build_graph(closed(
    features({5}),
    {owner, {"dense", "b", {}, {{"units", 5}, {"weight", "a/weight"}}}}));
  BOOST_TEST(graph.ops[0].parameters[0] == graph.ops[1].parameters[0]);
  BOOST_TEST(graph.ops[0].parameters[1] != graph.ops[1].parameters[1]);
  check_refused(
    closed(features({5}),
           {owner, {"dense", "b", {}, {{"units", 4}, {"weight", "a/weight"}}}}),
    "operator b: its weight is [5, 4] but a/weight is [5, 5]");
  check_refused(
    closed(features({5}),
           {owner, {"dense", "b", {}, {{"units", 4}, {"weight", "c/weight"}}}}),
    "there is no parameter c/weight before it");
  check_refused(
    closed(features({5}),
           {owner,
            {"dense",
             "b",
             {},
             {{"units", 5}, {"weight", "a/weight"}, {"scale", 1.0}}}}),
    "a shared weight has the initializer of its owner");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_names_the_operator_and_the_shapes) {
  check_refused(std::vector<Misfit>{
    {features({8, 8, 16}),
     {{"conv2d", "wide", {}, {{"units", 32}, {"kernel", 1}}},
      {"add", "sum", {"features", "wide"}}},
     "operator sum: add takes two or more of one shape, not [8, 8, 16] and "
     "[8, 8, 32]"},
    {features({4, 6}),
     {{"slice", "a", {"features"}, {{"end", 3}}},
      {"multiply", "b", {"features", "a"}}},
     "operator b: multiply takes two of one shape, not [4, 6] and [3, 6]"},
    {features({4, 6}),
     {{"slice", "a", {"features"}, {{"end", 3}}},
      {"concat", "b", {"features", "a"}, {{"axis", 1}}}},
     "operator b: concat takes shapes that differ along axis 1 alone, not "
     "[4, 6] and [3, 6]"},
    {features({4, 6}),
     {{"concat", "op", {"features", "features"}, {{"axis", 2}}}},
     "there is no axis 2 in [4, 6]"},
    {features({5}), one("dense"),
     "operator op: dense needs the attribute units"},
    {features({5}), one("conv2d", {{"units", 3}, {"kernel", 3}}),
     "conv2d takes images [height, width, channels], not [5]"},
    {features({5, 5, 1}), one("conv2d", {{"units", 3}, {"kernel", 7}}),
     "a kernel [7, 7] with padding 0 is larger than the image [5, 5, 1]"},
    {features({5, 5, 1}),
     one("conv2d", {{"units", 3}, {"kernel", 2}, {"padding", "same"}}),
     "padding \"same\" needs an odd kernel, not 2"},
    {features({5, 5, 1}),
     one("conv2d", {{"units", 3}, {"kernel", 2}, {"padding", 2}}),
     "padding 2 is not smaller than kernel 2"},
    {features({5, 5, 3}),
     one("conv2d", {{"units", 4}, {"kernel", 1}, {"groups", 2}}), "2 groups"},
    {features({5, 5, 3}), one("max_pool", {{"stride", 2}}),
     "stride and padding need a kernel"},
    {features({5}), one("max_pool"), "max_pool takes images"},
  });
}

BOOST_AUTO_TEST_CASE(vectors_and_ids_that_do_not_fit_are_named_too) {
  check_refused(std::vector<Misfit>{
    {features({6, 8}), one("attention", {{"heads", 2}}),
     "attention takes [t, 3 d], query, key and value side by side, not [6, 8]"},
    {features({6, 9}), one("attention", {{"heads", 2}}),
     "2 heads do not divide the width 3"},
    {features({1, 8}), one("interaction"),
     "interaction takes two or more vectors [n, d], not [1, 8]"},
    {features({8}), one("factorization"), "takes vectors [n, d], not [8]"},
    {features({8}), one("slice", {{"begin", 3}, {"end", 9}}),
     "[3, 9) is no slice along axis 0 of [8]"},
    {features({8}), one("slice", {{"begin", 3}, {"end", 3}}), "[3, 3) is no"},
    {features({8}), one("reshape", {{"shape", Shape{3, 3}}}),
     "reshape keeps the number of elements, not [8] and [3, 3]"},
    {features({8}), one("reshape", {{"shape", Shape{0, 8}}}), "[0, 8]"},
    {features({2, 4}), one("transpose", {{"permutation", Shape{0, 0}}}),
     "[0, 0] does not permute the extents of [2, 4]"},
    {features({2, 4}), one("transpose"), "needs the attribute permutation"},
    {features({2, 4}), one("activation"), "needs the attribute activation"},
    {ids(3, 50),
     {{"dense", "op", {}, {{"units", 2}}}},
     "dense takes float32 values, not ids"},
    {features({3}), one("embedding", {{"width", 2}}),
     "embedding takes ids, not features"},
    {ids(3, 50), one("embedding"), "needs the attribute width"},
    {ids(3, 50), one("embedding", {{"width", 2}, {"vocabulary", 49}}),
     "a table of 49 rows is too small for ids below 50"},
    {ids(3, 50, {4}),
     {{"embedding_bag", "op", {"ids", "features"}, {{"width", 2}}}},
     "embedding_bag takes a weight for each id, not [3] and [4]"},
    {features({5}),
     {{"add", "op", {"features"}}},
     "add takes two or more inputs, not 1"},
    {features({5}),
     {{"dense", "op", {"features", "features"}, {{"units", 1}}}},
     "dense takes one input, not 2"},
    {features({1u << 30}), one("dense", {{"units", 1 << 30}}), "too large"},
  });
}

BOOST_AUTO_TEST_CASE(attributes_are_checked_by_name_type_and_range) {
  struct Case {
    const char* name;
    AttributeValue value;
    const char* message;
  };
  const Case cases[] = {
    {"unit", 3,
     "dense has no attribute unit (did you mean units?); it takes "
     "units, activation"},
    {"heads", 3, "dense has no attribute heads; it takes"},
    {"units", 0, "units is not a whole number from 1 to"},
    {"units", -3, "units is not a whole number from 1 to"},
    {"units", 3.5, "units is not a whole number"},
    {"units", true, "units is not a whole number"},
    {"units", "many", "units is not a whole number, \"classes\""},
    {"units", "vocabulary", "units is \"vocabulary\", but a sample has none"},
    {"activation", "swish",
     "activation is not one of: none, relu, gelu, silu, tanh, sigmoid"},
    {"bias", 1, "bias is not true or false"},
    {"initializer", "he", "initializer is not one of: zeros"},
    {"initializer", "normal", "need the attribute scale"},
    {"scale", 0.1, "scale goes with"},
    {"scale", -1, "scale is not a number above 0"},
    {"scale", std::nan(""), "scale is not a number above 0"},
    {"weight", 3, "weight is not the name of a parameter"},
  };
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.message) {
      Attributes attributes{{one.name, one.value}};
      if (std::string{one.name} != "units")
        attributes.emplace_back("units", 3);
      check_refused(closed(features({5}), {{"dense", "op", {}, attributes}}),
                    one.message);
    }
  check_refused(closed(features({5}),
                       {{"dense", "op", {}, {{"units", 3}, {"units", 4}}}}),
                "the attribute units is there twice");
  check_refused(closed(features({5}), {{"dropout", "op", {}, {{"rate", 1.0}}}}),
                "rate 1 would drop everything");
}

BOOST_AUTO_TEST_CASE(a_graph_that_makes_no_sense_is_refused) {
  const OpSpec logits{"dense", "logits", {}, {{"units", 3}}};
  const OpSpec loss{"softmax_cross_entropy"};
  auto spec = [&](std::vector<OpSpec> operators) {
    return ModelSpec{"tiny", features({5}), std::move(operators)};
  };
  check_refused(spec({}), "has no operators");
  check_refused(spec({{"conv3d", "op"}}),
                "operator op: unknown kind conv3d; did you mean conv2d?");
  check_refused(spec({{"banana", "op"}}), "unknown kind banana");
  check_refused(spec({logits}), "the last operator must be a loss");
  check_refused(spec({logits, loss, logits}), "a loss comes last and once");
  check_refused(spec({logits, loss, loss}), "a loss comes last and once");
  check_refused(spec({logits, {"dense", "logits", {}, {{"units", 3}}}, loss}),
                "there is a value of this name already");
  check_refused(spec({{"dense", "ids", {}, {{"units", 3}}}, loss}),
                "there is a value of this name already");
  check_refused(spec({{"dense", "a b", {}, {{"units", 3}}}, loss}),
                "a name is of letters");
  check_refused(spec({{"dense", "aside", {}, {{"units", 3}}},
                      {"dense", "logits", {"features"}, {{"units", 3}}},
                      loss}),
                "nothing uses aside");
  check_refused(spec({logits, {"softmax_cross_entropy", "", {"logit"}}}),
                "there is no value 'logit' before it; did you mean logits?");
  check_refused(spec({{"slice", "s", {}, {{"end", 3}}}, loss}),
                "has no parameters to train");
  check_refused(spec({{"dense", "logits", {}, {{"units", 2}}}, loss}),
                "[2] has 2 outputs but the data has 3 classes");
  check_refused(spec({logits, {"sigmoid_cross_entropy"}}),
                "sigmoid_cross_entropy takes one logit [1], not [3]");
  check_refused(spec({logits, {"mean_squared_error"}}),
                "mean_squared_error is for numbers, not for classes");
  check_refused({"tiny", features({2, 5}), {logits, loss}},
                "the outputs [2, 3] are for 2 labels but a sample has 1");
  check_refused({"tiny", features({0}), {logits, loss}}, "[0] is empty");
  check_refused({"tiny", ids(3, 50, {5}), {logits, loss}},
                "samples have features and ids; name its inputs");
  check_refused({"tiny",
                 ids(3, 50, {5}),
                 {{"dense", "logits", {"features"}, {{"units", 3}}}, loss}},
                "nothing uses ids");
}

BOOST_AUTO_TEST_CASE(any_activation_may_follow_a_convolution_or_a_norm) {
  // All but relu were refused, late, by the operators of a device.
  for (const std::string activation : {"gelu", "silu", "tanh", "sigmoid"})
    for (const std::string kind : {"conv2d", "batch_norm"}) {
      Attributes attributes{{"activation", activation}};
      if (kind == "conv2d") {
        attributes.push_back({"units", int64_t{2}});
        attributes.push_back({"kernel", int64_t{3}});
      }
      const auto graph = build_graph(
        closed(features({4, 4, 3}), {{kind, "op", {}, attributes}}));
      BOOST_REQUIRE_EQUAL(graph.ops.size(), 5u);
      BOOST_TEST((graph.ops[0].attributes.activation == Activation::none));
      BOOST_TEST((graph.ops[1].kind == OpKind::activation));
      BOOST_TEST(to_string(graph.ops[1].attributes.activation) == activation);
      BOOST_TEST(graph.values[graph.ops[1].output].name == "op");
      BOOST_TEST(graph.ops[2].inputs[0] == graph.ops[1].output);
    }
  const auto relu = build_graph(closed(
    features({4, 4, 3}), {{"batch_norm", "op", {}, {{"activation", "relu"}}}}));
  BOOST_TEST(relu.ops.size() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()

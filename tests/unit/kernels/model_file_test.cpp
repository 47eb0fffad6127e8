#include "kernels/base/error.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(model_file_test)

namespace {

constexpr const char* tiny_toml = R"(
name = "tiny"

[sample]
features = [8, 8, 3]
classes = 5

[[operators]]
kind = "conv2d"
units = 4
kernel = 3
padding = "same"
activation = "gelu"

[[operators]]
kind = "average_pool"

[[operators]]
kind = "dense"
name = "logits"
inputs = "average_pool_0"
units = "classes"
initializer = "normal"
scale = 0.1

[[operators]]
kind = "softmax_cross_entropy"
)";

constexpr const char* tiny_json = R"({
  "name": "tiny",
  "sample": {"features": [8, 8, 3], "classes": 5},
  "operators": [
    {"kind": "conv2d", "units": 4, "kernel": 3, "padding": "same",
     "activation": "gelu"},
    {"kind": "average_pool"},
    {"kind": "dense", "name": "logits", "inputs": ["average_pool_0"],
     "units": "classes", "initializer": "normal", "scale": 1e-1},
    {"kind": "softmax_cross_entropy"}
  ]
})";

/// A file that is gone at the end.
struct File {
  std::filesystem::path path;

  File(const std::string& name, const std::string& text)
    : path(std::filesystem::temp_directory_path() / name) {
    std::ofstream{path} << text;
  }
  ~File() { std::filesystem::remove(path); }
};

bool same(const OpAttributes& a, const OpAttributes& b) {
  return a.units == b.units && a.activation == b.activation && a.bias == b.bias
         && a.transposed == b.transposed && a.kernel == b.kernel
         && a.stride == b.stride && a.padding == b.padding
         && a.groups == b.groups && a.epsilon == b.epsilon
         && a.momentum == b.momentum && a.cross_replica == b.cross_replica
         && a.rate == b.rate && a.width == b.width
         && a.vocabulary == b.vocabulary && a.mode == b.mode
         && a.heads == b.heads && a.causal == b.causal && a.axis == b.axis
         && a.begin == b.begin && a.end == b.end && a.shape == b.shape
         && a.permutation == b.permutation;
}

void check_same(const Graph& a, const Graph& b) {
  BOOST_TEST((a.sample == b.sample));
  BOOST_REQUIRE_EQUAL(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    BOOST_TEST(a.values[i].name == b.values[i].name);
    BOOST_TEST((a.values[i].shape == b.values[i].shape));
    BOOST_TEST((a.values[i].type == b.values[i].type));
  }
  BOOST_REQUIRE_EQUAL(a.ops.size(), b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    BOOST_TEST(a.ops[i].name == b.ops[i].name);
    BOOST_TEST((a.ops[i].kind == b.ops[i].kind));
    BOOST_TEST((a.ops[i].inputs == b.ops[i].inputs));
    BOOST_TEST((a.ops[i].parameters == b.ops[i].parameters));
    BOOST_TEST(same(a.ops[i].attributes, b.ops[i].attributes));
  }
  BOOST_REQUIRE_EQUAL(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const auto& one = a.parameters[i];
    const auto& other = b.parameters[i];
    BOOST_TEST(one.name == other.name);
    BOOST_TEST((one.shape == other.shape));
    BOOST_TEST((one.initializer == other.initializer));
    BOOST_TEST(one.fan_in == other.fan_in);
    BOOST_TEST(one.scale == other.scale);
    BOOST_TEST(one.momentum == other.momentum);
    BOOST_TEST(one.decays == other.decays);
    BOOST_TEST(one.by_rows == other.by_rows);
  }
}

/// A model file of some operators, on images.
std::string with(const std::string& operators) {
  return R"({"sample": {"features": [8, 8, 3], "classes": 5}, "operators": [)"
         + operators + "]}";
}

} // namespace

BOOST_AUTO_TEST_CASE(toml_and_json_say_the_same) {
  auto toml = build_graph(parse_model_toml(tiny_toml, "tiny.toml"));
  auto json = build_graph(parse_model_json(tiny_json, "tiny.json"));
  check_same(toml, json);
  BOOST_TEST(json.classes() == 5u);
  BOOST_TEST(json.parameter_count() == 27u * 4 + 4 + 4 * 5 + 5);
}

BOOST_AUTO_TEST_CASE(a_file_fits_itself_to_the_data) {
  File file{"troupe_model_file_test_fits.toml", tiny_toml};
  SampleShape sample;
  sample.features = {12, 10, 1};
  sample.classes = 4;
  auto graph = make_graph(file.path.string(), sample);
  BOOST_TEST(graph.classes() == 4u);
  BOOST_TEST(graph.features() == 120u);
}

// Symptom: a file with classes = 5 trained a model of 8 on data with labels up
// to 7, one of them mistyped, without a word.
BOOST_AUTO_TEST_CASE(more_classes_than_a_file_says_are_refused) {
  File file{"troupe_model_file_test_more.toml", tiny_toml};
  SampleShape sample;
  sample.features = {8, 8, 3};
  sample.classes = 8;
  for (const auto& model :
       {file.path.string(), portable_model(file.path.string())})
    BOOST_CHECK_EXCEPTION(
      make_graph(model, sample), InputError, [](const InputError& error) {
        return std::string{error.what()}.ends_with(
          ": its sample says classes = 5, and the data has labels up to 7; "
          "write classes = 8, or mend the labels");
      });
  sample.classes = 5;
  BOOST_TEST(make_graph(file.path.string(), sample).classes() == 5u);
}

BOOST_AUTO_TEST_CASE(a_graph_carries_what_its_file_held) {
  Graph graph;
  std::string portable;
  {
    File file{"troupe_model_file_test_gone.json", tiny_json};
    graph = make_graph(file.path.string());
    portable = portable_model(file.path.string());
  }
  BOOST_TEST(graph.text == portable);
  BOOST_TEST(portable.find('\n') == std::string::npos);
  auto again = make_graph(portable);
  check_same(graph, again);
  BOOST_TEST(again.text == portable);
  BOOST_TEST(portable_model(portable) == portable);
  BOOST_TEST(portable_model("cnn") == "cnn");
}

BOOST_AUTO_TEST_CASE(built_in_models_come_back_from_their_files) {
  for (const auto* model :
       {"mlp:784-512-256-10", "cnn", "resnet8", "resnet20",
        "transformer:L2-H2-D16-T8-P0.1", "gpt2:L2-H2-D16-T8",
        "llama:L2-H2-K1-D16-T8-P0.1", "dlrm", "wide_deep", "logreg"})
    BOOST_TEST_CONTEXT(model) {
      auto spec = model_spec(model);
      for (bool pretty : {false, true}) {
        auto again = parse_model_json(to_json(spec, pretty), "again.json");
        BOOST_TEST((again == spec));
        check_same(build_graph(again), build_graph(spec));
      }
    }
}

BOOST_AUTO_TEST_CASE(a_bad_json_file_gets_one_line_with_file_and_place) {
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
    {"", "bad.json:1:1: not valid JSON"},
    {"{\n  \"sample\": [,]\n}", "bad.json:2:14: not valid JSON"},
    {"[]", "bad.json: expected a table with sample and operators"},
    {"{}", "bad.json: has no sample"},
    {R"({"sample": {}, "operators": []})",
     "bad.json: sample: says neither features nor ids"},
    {R"({"sample": {"ids": 3}, "operators": []})", "neither features nor ids"},
    {R"({"sample": {"features": 3}})",
     "bad.json: sample: features: expected a list of whole numbers"},
    {R"({"sample": {"features": [3, -1]}})",
     "sample: features[1]: expected a whole number from 0"},
    {R"({"sample": {"features": [3.0]}})", "features[0]: expected a whole"},
    {R"({"sample": {"features": [0]}, "operators": [{"kind": "dense"}]})",
     "features: [0] is empty"},
    {R"({"sample": {"feature": [3]}})",
     "unknown key feature; did you mean features?"},
    {R"({"sample": {"features": [3], "label": "nine"}})",
     "label: expected classes, binary, number or tokens"},
    {R"({"sample": {"features": [3], "label": "binary", "classes": 2}})",
     "classes go with label"},
    {R"({"sample": {"features": [3]}})", "bad.json: has no operators"},
    {R"({"sample": {"features": [3]}, "operators": {}})",
     "operators: expected a list of operators"},
    {R"({"sample": {"features": [3]}, "operators": []})",
     "bad.json: has no operators"},
    {R"({"sample": {"features": [3]}, "operators": [], "operators": []})",
     "the key operators is there twice"},
    {R"({"sample": {"features": [3]}, "layers": []})", "unknown key layers"},
    {with("3"), "operators[0]: expected a table with a kind"},
    {with("{}"), "operators[0]: has no kind"},
    {with(R"({"kind": 3})"), "operators[0]: kind: expected a text"},
    {with(R"({"kind": "dense", "units": null})"),
     "operators[0]: units: expected a number, a text"},
    {with(R"({"kind": "dense", "units": 18446744073709551615})"),
     "units: the number is too large"},
    {with(R"({"kind": "dense", "inputs": []})"),
     "inputs: expected the name of a value or a list"},
    {with(R"({"kind": "desne", "units": 3})"),
     "model bad.json: operator 0: unknown kind desne; did you mean dense?"},
  };
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.text) {
      BOOST_CHECK_EXCEPTION(
        build_graph(parse_model_json(one.text, "bad.json")), UsageError,
        [&](const UsageError& error) {
          const std::string what = error.what();
          BOOST_TEST(what.find(one.message) != std::string::npos, what);
          BOOST_TEST(what.find('\n') == std::string::npos, what);
          return what.find("bad.json") != std::string::npos;
        });
    }
}

BOOST_AUTO_TEST_CASE(a_bad_toml_file_gets_one_line_with_file_and_place) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
    {"name = \"x\"\nsample = ", "bad.toml:2:"},
    {"name = 1979-05-27", "bad.toml:1: a model file holds no dates"},
    {"name = 3", "bad.toml: name: expected a text"},
    {"[sample]\nfeatures = [3]\n[operators]\nkind = \"dense\"",
     "operators: expected a list"},
    {"[sample]\nfeatures = [3]\nfeatures = [4]", "bad.toml:3:"},
  };
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.text) {
      BOOST_CHECK_EXCEPTION(parse_model_toml(one.text, "bad.toml"), UsageError,
                            [&](const UsageError& error) {
                              const std::string what = error.what();
                              BOOST_TEST(what.find('\n') == std::string::npos);
                              BOOST_TEST_MESSAGE(what);
                              return what.find(one.message)
                                     != std::string::npos;
                            });
    }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_is_an_input_error_that_names_it) {
  for (const auto* path : {"no/such/model.json", "no_such_model.toml"})
    BOOST_CHECK_EXCEPTION(
      make_graph(path), InputError, [&](const InputError& error) {
        return std::string{error.what()}.find(path) != std::string::npos
               && dynamic_cast<const UsageError*>(&error) == nullptr;
      });
}

BOOST_AUTO_TEST_CASE(deep_nesting_and_odd_bytes_do_not_end_the_program) {
  BOOST_CHECK_THROW(parse_model_json(std::string(100'000, '['), "deep.json"),
                    UsageError);
  BOOST_CHECK_THROW(parse_model_toml("a = " + std::string(10'000, '['),
                                     "deep.toml"),
                    UsageError);
  BOOST_CHECK_THROW(parse_model_json("{\"name\": \"\xff\xfe\"}", "odd.json"),
                    UsageError);
  BOOST_CHECK_THROW(parse_model_json(std::string("{\0}", 3), "zero.json"),
                    UsageError);
}

BOOST_AUTO_TEST_SUITE_END()

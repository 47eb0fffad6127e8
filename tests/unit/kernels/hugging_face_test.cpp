#include "kernels/base/error.hpp"
#include "kernels/graph/hugging_face.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(hugging_face_test)

namespace {

Graph language_model(const std::string& model) {
  SampleShape sample;
  sample.vocabulary = 11;
  sample.label = LabelKind::tokens;
  return make_graph(model, sample);
}

/// Each value says of which parameter it is, and which element.
std::vector<NamedTensor> numbered_tensors(const Graph& graph) {
  std::vector<NamedTensor> out;
  for (const auto& parameter : graph.parameters) {
    NamedTensor tensor{parameter.name, parameter.shape, {}};
    for (size_t k = 0; k < parameter.size(); ++k)
      tensor.values.push_back(static_cast<float>(10000 * out.size() + k));
    out.push_back(std::move(tensor));
  }
  return out;
}

const NamedTensor& named(const std::vector<NamedTensor>& tensors,
                         const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  BOOST_REQUIRE_MESSAGE(found != tensors.end(), name);
  return *found;
}

float element(const NamedTensor& tensor, size_t row, size_t column) {
  return tensor.values[row * tensor.shape.at(1) + column];
}

ModelSpec configured(const std::string& text) {
  return parse_model_json(text, "config.json");
}

const char* const tiny_llama = R"({"model_type": "llama", "vocab_size": 11,
  "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
  "max_position_embeddings": 9, "rms_norm_eps": 1e-6)";

} // namespace

BOOST_AUTO_TEST_CASE(tensors_come_back_as_they_went) {
  for (const auto* model :
       {"gpt2:L2-H2-D8-T5", "llama:L2-H4-K2-D16-T5", "llama:L1-H2-D8-T5"}) {
    const auto graph = language_model(model);
    const auto own = numbered_tensors(graph);
    const auto there = to_hugging_face(graph, own);
    const auto back = from_hugging_face(graph, there.tensors, "file");
    BOOST_REQUIRE(back.size() == own.size());
    for (const auto& tensor : own) {
      const auto& again = named(back, tensor.name);
      BOOST_TEST((again.shape == tensor.shape));
      BOOST_TEST(again.values == tensor.values,
                 boost::test_tools::per_element());
    }
    // The configuration says the same model.
    const auto spec = configured(there.config);
    const auto same = build_graph(spec);
    BOOST_REQUIRE(same.parameters.size() == graph.parameters.size());
    for (size_t i = 0; i < same.parameters.size(); ++i) {
      BOOST_TEST(same.parameters[i].name == graph.parameters[i].name);
      BOOST_TEST((same.parameters[i].shape == graph.parameters[i].shape));
    }
    BOOST_TEST(same.ids() == graph.ids());
  }
}

BOOST_AUTO_TEST_CASE(weights_of_llama_are_transposed_and_apart) {
  const auto graph = language_model("llama:L2-H4-K2-D16-T5-F24");
  const auto own = numbered_tensors(graph);
  const auto there = to_hugging_face(graph, own).tensors;
  const auto& qkv = named(own, "block_1.qkv/weight"); // [16, 16 + 8 + 8]
  const std::string layer = "model.layers.1.";
  const auto& q = named(there, layer + "self_attn.q_proj.weight");
  const auto& k = named(there, layer + "self_attn.k_proj.weight");
  const auto& v = named(there, layer + "self_attn.v_proj.weight");
  BOOST_TEST((q.shape == Shape{16, 16}));
  BOOST_TEST((k.shape == Shape{8, 16}));
  BOOST_TEST((v.shape == Shape{8, 16}));
  BOOST_TEST(element(q, 3, 5) == element(qkv, 5, 3));
  BOOST_TEST(element(k, 3, 5) == element(qkv, 5, 16 + 3));
  BOOST_TEST(element(v, 7, 15) == element(qkv, 15, 24 + 7));
  const auto& gate_up = named(own, "block_1.gate_up/weight");
  BOOST_TEST(element(named(there, layer + "mlp.up_proj.weight"), 2, 9)
             == element(gate_up, 9, 24 + 2));
  BOOST_TEST(
    (named(there, layer + "mlp.down_proj.weight").shape == Shape{16, 24}));
  BOOST_TEST((named(there, "lm_head.weight").shape == Shape{11, 16}));
}

BOOST_AUTO_TEST_CASE(weights_of_gpt2_lie_as_they_are) {
  const auto graph = language_model("gpt2:L1-H2-D8-T5");
  const auto own = numbered_tensors(graph);
  auto there = to_hugging_face(graph, own).tensors;
  BOOST_TEST((named(there, "transformer.h.0.attn.c_attn.weight").values
              == named(own, "block_0.qkv/weight").values));
  BOOST_TEST((named(there, "transformer.h.0.mlp.c_proj.bias").values
              == named(own, "block_0.down/bias").values));
  BOOST_TEST((named(there, "transformer.ln_f.bias").values
              == named(own, "norm/shift").values));
  BOOST_TEST(!is_learned_tensor("h.0.attn.bias")); // a mask
  BOOST_TEST(is_learned_tensor("h.0.attn.c_attn.bias"));
  // As the base model is kept: without the prefix, with the head.
  for (auto& tensor : there)
    tensor.name = tensor.name.substr(12);
  there.push_back({"lm_head.weight", {1}, {1}});
  BOOST_TEST(from_hugging_face(graph, there, "file").size() == own.size());
}

BOOST_AUTO_TEST_CASE(tensors_by_other_names_stay) {
  const auto graph = language_model("llama:L1-H2-D8-T5");
  const auto own = numbered_tensors(graph);
  const auto same = from_hugging_face(graph, own, "file");
  BOOST_TEST(same.front().name == own.front().name);
  BOOST_TEST(same.size() == own.size());
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named) {
  const auto check = [](const auto& call, const std::string& message) {
    BOOST_CHECK_EXCEPTION(call(), InputError, [&](const InputError& error) {
      BOOST_TEST_MESSAGE(error.what());
      return std::string{error.what()}.find(message) != std::string::npos;
    });
  };
  const auto graph = language_model("llama:L1-H2-D8-T5");
  auto there = to_hugging_face(graph, numbered_tensors(graph)).tensors;
  check(
    [&] {
      return from_hugging_face(language_model("gpt2:L1-H2-D8-T5"), there, "f");
    },
    "f: tensor transformer.wte.weight is missing");
  check(
    [&] {
      return from_hugging_face(language_model("transformer:L1-H2-D8-T5"), there,
                               "f");
    },
    "f: has the names of Hugging Face's GPT-2 or Llama");
  check(
    [&] {
      return from_hugging_face(language_model("llama:L1-H2-K1-D8-T5"), there,
                               "f");
    },
    "f: tensor model.layers.0.self_attn.k_proj.weight is [8, 8] but the model "
    "needs [4, 8]");
  check(
    [&] {
      const auto other = language_model("transformer:L1-H2-D8-T5");
      return to_hugging_face(other, numbered_tensors(other));
    },
    "is no GPT-2 and no Llama");
  // The same parameters in another computation.
  auto full = graph;
  for (auto& op : full.ops)
    op.attributes.causal = false;
  check([&] { return to_hugging_face(full, numbered_tensors(full)); },
        "is no GPT-2 and no Llama");
  auto alone = graph;
  std::erase_if(alone.ops,
                [](const Op& op) { return op.kind == OpKind::attention; });
  check([&] { return to_hugging_face(alone, numbered_tensors(alone)); },
        "is no GPT-2 and no Llama");
}

BOOST_AUTO_TEST_CASE(a_configuration_is_a_model) {
  const auto graph = build_graph(
    configured(std::string{tiny_llama} + R"(, "tie_word_embeddings": true,
      "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})"));
  BOOST_TEST(graph.ids() == 9u);
  BOOST_TEST(graph.classes() == 11u);
  const auto find = [&](const std::string& name) -> const Op& {
    const auto found = std::ranges::find(graph.ops, name, &Op::name);
    BOOST_REQUIRE_MESSAGE(found != graph.ops.end(), name);
    return *found;
  };
  BOOST_TEST(find("block_1.rotary").attributes.base == 500000);
  BOOST_TEST(find("block_1.attention").attributes.key_heads() == 2u);
  BOOST_TEST(find("norm").attributes.epsilon == 1e-6f);
  BOOST_TEST(find("logits").attributes.transposed);
  // Heads of their own width: [12, (4 + 2 + 2) 6], and 24 back to 12.
  const auto& qkv = graph.parameters[find("block_0.qkv").parameters[0]];
  BOOST_TEST((qkv.shape == Shape{12, 48}));
}

BOOST_AUTO_TEST_CASE(what_a_configuration_asks_for_in_vain_is_named) {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::string llama = tiny_llama;
  const Case cases[] = {
    {R"({"model_type": "mamba"})", "model_type \"mamba\" is not computed"},
    {R"({"model_type": 3})", "model_type: expected a text"},
    {R"({"model_type": "gpt2"})", "n_layer is missing"},
    {llama + R"(, "hidden_act": "gelu"})", "hidden_act = \"gelu\""},
    {llama + R"(, "attention_bias": true})", "attention_bias = true"},
    {llama + R"(, "rope_scaling": {"rope_type": "llama3"}})",
     "rope_scaling: scaled rotary angles"},
    {R"({"model_type": "llama", "hidden_size": -4})",
     "num_hidden_layers is missing"},
    {R"({"model_type": "gpt2", "n_layer": 0})",
     "n_layer: expected a whole number"},
  };
  for (const auto& one : cases)
    BOOST_CHECK_EXCEPTION(configured(one.text), UsageError,
                          [&](const UsageError& error) {
                            BOOST_TEST_MESSAGE(error.what());
                            const std::string text = error.what();
                            return text.find(one.message) != text.npos
                                   && text.starts_with("config.json: ");
                          });
}

BOOST_AUTO_TEST_SUITE_END()

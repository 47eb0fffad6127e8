#include "kernels/graph/hugging_face.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/graph/text_models.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

using kernels::GptSize;
using kernels::Json;
using kernels::LlamaSize;

// -- config.json --------------------------------------------------------------

constexpr uint64_t max_config_layers = 1000;
constexpr uint64_t max_config_heads = 1024;
constexpr uint64_t max_config_width = 1 << 18;
constexpr uint64_t max_config_window = 1 << 20;
constexpr uint64_t max_config_vocabulary = 1 << 24;

/// A configuration and where it came from.
class Config {
public:
  Config(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError(where_ + ": " + what);
  }

  bool has(const char* key) const {
    return json_.contains(key) && !json_.at(key).is_null();
  }

  uint64_t count(const char* key, uint64_t most) const {
    if (!has(key))
      refuse(std::string{key} + " is missing");
    const auto& value = json_.at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() == 0
        || value.get<uint64_t>() > most)
      refuse(std::string{key} + ": expected a whole number from 1 to "
             + std::to_string(most));
    return value.get<uint64_t>();
  }
  uint64_t count(const char* key, uint64_t most, uint64_t fallback) const {
    return has(key) ? count(key, most) : fallback;
  }

  double real(const char* key, double fallback) const {
    if (has(key) && !json_.at(key).is_number())
      refuse(std::string{key} + ": expected a number");
    return has(key) ? json_.at(key).get<double>() : fallback;
  }

  bool flag(const char* key, bool fallback) const {
    if (has(key) && !json_.at(key).is_boolean())
      refuse(std::string{key} + ": expected true or false");
    return has(key) ? json_.at(key).get<bool>() : fallback;
  }

  std::string text(const char* key, const char* fallback) const {
    if (has(key) && !json_.at(key).is_string())
      refuse(std::string{key} + ": expected a text");
    return has(key) ? json_.at(key).get<std::string>() : fallback;
  }

  /// Refuses what holds where another value is the only one that is computed.
  void expect(bool holds, const char* key, const char* only) const {
    constexpr size_t longest = 60;
    if (!holds)
      refuse(std::string{key} + " = "
             + shown_text(kernels::dumped(json_.at(key)).substr(0, longest))
             + " is not computed here, only " + only);
  }

  Config table(const char* key) const {
    if (!json_.at(key).is_object())
      refuse(std::string{key} + ": expected a table");
    return {json_.at(key), where_ + ": " + key};
  }

private:
  const Json& json_;
  std::string where_;
};

SampleShape text_of(uint64_t vocabulary) {
  SampleShape sample;
  sample.vocabulary = static_cast<uint32_t>(vocabulary);
  sample.label = LabelKind::tokens;
  return sample;
}

ModelSpec gpt_of(const Config& config, const std::string& where) {
  GptSize size;
  size.layers = config.count("n_layer", max_config_layers);
  size.heads = config.count("n_head", max_config_heads);
  size.width = config.count("n_embd", max_config_width);
  size.window = config.count("n_positions", max_config_window);
  size.vocabulary = config.count("vocab_size", max_config_vocabulary);
  size.epsilon = config.real("layer_norm_epsilon", 1e-5);
  size.biases = true;
  const auto activation = config.text("activation_function", "gelu_new");
  config.expect(activation == "gelu_new" || activation == "gelu_pytorch_tanh"
                  || activation == "gelu" || activation == "relu",
                "activation_function", "gelu_new, gelu and relu");
  size.activation = activation.starts_with("gelu_") ? "gelu_tanh" : activation;
  config.expect(config.count("n_inner", 4 * max_config_width, 4 * size.width)
                  == 4 * size.width,
                "n_inner", "four times n_embd");
  config.expect(config.flag("tie_word_embeddings", true), "tie_word_embeddings",
                "true");
  config.expect(config.flag("scale_attn_weights", true), "scale_attn_weights",
                "true");
  config.expect(!config.flag("scale_attn_by_inverse_layer_idx", false),
                "scale_attn_by_inverse_layer_idx", "false");
  return kernels::gpt_model(where, size, text_of(size.vocabulary));
}

/// Angles are those of a plain base, as a table of its own has it in newer
/// files.
double rotary_base(const Config& config) {
  double base = config.real("rope_theta", 10000);
  for (const auto* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key))
      continue;
    const auto table = config.table(key);
    const auto type = table.text("rope_type", "default");
    if (type != "default" || table.has("type"))
      config.refuse(std::string{key}
                    + ": scaled rotary angles are not computed here, only "
                      "rope_type \"default\"");
    base = table.real("rope_theta", base);
  }
  return base;
}

ModelSpec llama_of(const Config& config, const std::string& where) {
  LlamaSize size;
  size.layers = config.count("num_hidden_layers", max_config_layers);
  size.heads = config.count("num_attention_heads", max_config_heads);
  size.key_heads = config.count("num_key_value_heads", max_config_heads,
                                size.heads);
  size.width = config.count("hidden_size", max_config_width);
  size.head = config.count("head_dim", max_config_width,
                           size.width / size.heads);
  size.hidden = config.count("intermediate_size", max_config_width);
  size.window = config.count("max_position_embeddings", max_config_window);
  size.vocabulary = config.count("vocab_size", max_config_vocabulary);
  size.epsilon = config.real("rms_norm_eps", 1e-6);
  size.base = rotary_base(config);
  size.tied = config.flag("tie_word_embeddings", false);
  config.expect(config.text("hidden_act", "silu") == "silu", "hidden_act",
                "silu");
  for (const auto* key : {"attention_bias", "mlp_bias"})
    config.expect(!config.flag(key, false), key, "false");
  return kernels::llama_model(where, size, text_of(size.vocabulary));
}

// -- tensors ------------------------------------------------------------------

/// Columns of a parameter [rows, columns] that are a tensor of theirs.
struct Columns {
  std::string name;
  uint64_t count = 0;
};

/// How a parameter lies with them: as it is, or transposed, cut by columns.
struct Lying {
  uint32_t parameter = 0;
  bool transposed = false;
  std::vector<Columns> parts;
};

/// The layout of one of the two kinds of models.
class Layouts {
public:
  explicit Layouts(const Graph& graph)
    : graph_(graph), parameters_(whole_parameters(graph)) {
    const bool llama = finds("tokens/table") && finds("block_0.gate_up/weight");
    const bool gpt = finds("positions/bias") && finds("block_0.norm_1/shift");
    for (uint32_t i = 0; i < parameters_.size() && (llama || gpt); ++i) {
      auto lying = llama ? llama_lying(i) : gpt_lying(i);
      if (!lying)
        return;
      all_.push_back(std::move(*lying));
    }
    known_ = llama || gpt;
    llama_ = llama;
  }

  bool known() const { return known_; }
  bool is_llama() const { return llama_; }
  const std::vector<Lying>& all() const { return all_; }
  const Parameter& parameter(const Lying& lying) const {
    return parameters_[lying.parameter];
  }

  const Op* op(const std::string& name) const {
    for (const auto& one : graph_.ops)
      if (one.name == name)
        return &one;
    return nullptr;
  }

private:
  bool finds(const char* name) const {
    return std::ranges::any_of(parameters_, [&](const Parameter& parameter) {
      return parameter.name == name;
    });
  }

  /// "block_12.up/weight" to 12 and "up/weight".
  static std::optional<std::pair<std::string, std::string>>
  of_block(const std::string& name) {
    const auto dot = name.find('.');
    if (!name.starts_with("block_") || dot == name.npos)
      return std::nullopt;
    const auto number = name.substr(6, dot - 6);
    if (number.empty() || number.find_first_not_of("0123456789") != number.npos)
      return std::nullopt;
    return std::pair{number, name.substr(dot + 1)};
  }

  static Lying as_it_is(uint32_t i, std::string name) {
    return {i, false, {{std::move(name), 0}}};
  }
  Lying transposed(uint32_t i, std::string name) const {
    return {i, true, {{std::move(name), parameters_[i].shape.back()}}};
  }

  std::optional<Lying> llama_lying(uint32_t i) const {
    const auto& parameter = parameters_[i];
    if (parameter.name == "tokens/table")
      return as_it_is(i, "model.embed_tokens.weight");
    if (parameter.name == "norm/scale")
      return as_it_is(i, "model.norm.weight");
    if (parameter.name == "logits/weight")
      return transposed(i, "lm_head.weight");
    const auto block = of_block(parameter.name);
    if (!block)
      return std::nullopt;
    const auto& [number, rest] = *block;
    const auto layer = "model.layers." + number + '.';
    const auto columns = parameter.shape.back();
    if (rest == "norm_1/scale")
      return as_it_is(i, layer + "input_layernorm.weight");
    if (rest == "norm_2/scale")
      return as_it_is(i, layer + "post_attention_layernorm.weight");
    if (rest == "projection/weight")
      return transposed(i, layer + "self_attn.o_proj.weight");
    if (rest == "down/weight")
      return transposed(i, layer + "mlp.down_proj.weight");
    if (rest == "gate_up/weight")
      return Lying{i,
                   true,
                   {{layer + "mlp.gate_proj.weight", columns / 2},
                    {layer + "mlp.up_proj.weight", columns / 2}}};
    const auto* turns = op("block_" + number + ".rotary");
    if (rest != "qkv/weight" || turns == nullptr
        || turns->attributes.interleaved)
      return std::nullopt;
    const uint64_t queries = turns->attributes.heads;
    const uint64_t keys = turns->attributes.key_heads();
    const auto head = columns / (queries + 2 * keys);
    return Lying{i,
                 true,
                 {{layer + "self_attn.q_proj.weight", queries * head},
                  {layer + "self_attn.k_proj.weight", keys * head},
                  {layer + "self_attn.v_proj.weight", keys * head}}};
  }

  /// Their layers of GPT-2 have weights [inputs, outputs] (Conv1D), as here.
  std::optional<Lying> gpt_lying(uint32_t i) const {
    static const std::map<std::string, std::string> layers{
      {"norm_1", "ln_1"}, {"qkv", "attn.c_attn"}, {"projection", "attn.c_proj"},
      {"norm_2", "ln_2"}, {"up", "mlp.c_fc"},     {"down", "mlp.c_proj"},
    };
    const auto& name = parameters_[i].name;
    const std::string all = "transformer.";
    if (name == "tokens/table")
      return as_it_is(i, all + "wte.weight");
    if (name == "positions/bias")
      return as_it_is(i, all + "wpe.weight");
    const auto slash = name.find('/');
    const auto role = name.substr(slash + 1);
    const auto theirs = role == "weight" || role == "scale" ? ".weight"
                                                            : ".bias";
    if (name.starts_with("norm/"))
      return as_it_is(i, all + "ln_f" + theirs);
    const auto block = of_block(name.substr(0, slash));
    if (!block || !layers.contains(block->second))
      return std::nullopt;
    return as_it_is(i, all + "h." + block->first + '.'
                         + layers.at(block->second) + theirs);
  }

  const Graph& graph_;
  const std::vector<Parameter>& parameters_;
  std::vector<Lying> all_;
  bool known_ = false;
  bool llama_ = false;
};

/// Copies columns [first, first + count) of ours [rows, columns] from, or to,
/// theirs [count, rows].
template <class Copy>
void for_transposed(uint64_t rows, uint64_t columns, uint64_t first,
                    uint64_t count, const Copy& copy) {
  for (uint64_t c = 0; c < count; ++c)
    for (uint64_t r = 0; r < rows; ++r)
      copy(r * columns + first + c, c * rows + r);
}

/// Files of the base model leave this out.
std::string with_prefix(const std::string& name) {
  const bool bare = name.starts_with("h.") || name.starts_with("ln_f.")
                    || name.starts_with("wte.") || name.starts_with("wpe.");
  return bare ? "transformer." + name : name;
}

NamedTensor take(std::map<std::string, NamedTensor>& theirs,
                 const std::string& name, const Shape& shape,
                 const std::string& where) {
  const auto found = theirs.find(name);
  if (found == theirs.end())
    throw InputError(where + ": tensor " + name
                     + " is missing; give the --model that the weights are of, "
                       "or its config.json");
  if (found->second.shape != shape)
    throw InputError(where + ": tensor " + name + " is "
                     + to_string(found->second.shape) + " but the model needs "
                     + to_string(shape)
                     + "; give the --model that the weights are of, or its "
                       "config.json");
  auto tensor = std::move(found->second);
  theirs.erase(found);
  return tensor;
}

/// The number that has the fewest digits of those that are this float.
double shortest(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(),
                                     value);
  double result = 0;
  std::from_chars(text.data(), written.ptr, result);
  return result;
}

/// Nothing: the graph lacks what a configuration tells of.
std::optional<Json> config_of(const Layouts& layouts, const Graph& graph) {
  const auto& parameters = whole_parameters(graph);
  const auto shape_of = [&](const std::string& name) {
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    return found == parameters.end() ? Shape{0, 0} : found->shape;
  };
  for (const auto* name :
       {"block_0.attention", "norm",
        layouts.is_llama() ? "block_0.rotary" : "block_0.up"})
    if (layouts.op(name) == nullptr)
      return std::nullopt;
  const auto table = shape_of("tokens/table");
  uint64_t layers = 0;
  while (layouts.op("block_" + std::to_string(layers) + ".attention")
         != nullptr)
    ++layers;
  const auto& attention = layouts.op("block_0.attention")->attributes;
  const auto epsilon = shortest(layouts.op("norm")->attributes.epsilon);
  Json out;
  out["architectures"] =
    Json::array({layouts.is_llama() ? "LlamaForCausalLM" : "GPT2LMHeadModel"});
  out["model_type"] = layouts.is_llama() ? "llama" : "gpt2";
  out["vocab_size"] = table[0];
  out["bos_token_id"] = nullptr;
  out["eos_token_id"] = nullptr;
  out["torch_dtype"] = "float32";
  if (!layouts.is_llama()) {
    const auto activation = layouts.op("block_0.up")->attributes.activation;
    out["n_embd"] = table[1];
    out["n_layer"] = layers;
    out["n_head"] = attention.heads;
    out["n_positions"] = graph.ids();
    out["activation_function"] =
      activation == Activation::gelu_tanh ? "gelu_new" : to_string(activation);
    out["layer_norm_epsilon"] = epsilon;
    out["tie_word_embeddings"] = true;
    return out;
  }
  const auto& turns = layouts.op("block_0.rotary")->attributes;
  const auto qkv = shape_of("block_0.qkv/weight");
  out["hidden_size"] = table[1];
  out["intermediate_size"] = shape_of("block_0.gate_up/weight")[1] / 2;
  out["num_hidden_layers"] = layers;
  out["num_attention_heads"] = attention.heads;
  out["num_key_value_heads"] = attention.key_heads();
  out["head_dim"] = qkv[1] / (attention.heads + 2 * attention.key_heads());
  out["max_position_embeddings"] = graph.ids();
  out["rms_norm_eps"] = epsilon;
  out["rope_theta"] = turns.base; // where older versions look, and newer ones
  out["rope_parameters"] = {{"rope_theta", turns.base},
                            {"rope_type", "default"}};
  out["hidden_act"] = "silu";
  out["attention_bias"] = false;
  out["mlp_bias"] = false;
  out["tie_word_embeddings"] =
    std::ranges::none_of(parameters, [](const Parameter& parameter) {
      return parameter.name == "logits/weight";
    });
  return out;
}

// -- whether another graph computes the same ----------------------------------

/// An operator without its name and its values' numbers.
struct Step {
  const Op* op;
  std::vector<uint64_t>
    from; ///< which steps it reads; what a sample holds: none
  std::vector<Shape> parameters;
};

/// The operators that predictions are computed by.
std::vector<Step> steps_of(const Graph& graph) {
  constexpr auto sample = ~uint64_t{0};
  std::map<uint32_t, uint64_t> made; // by value
  const auto maker = [&](uint32_t value) {
    const auto found = made.find(value);
    return found == made.end() ? sample : found->second;
  };
  std::vector<Step> out;
  for (const auto& op : graph.ops) {
    if (op.kind == OpKind::dropout) {
      made[op.output] = maker(op.inputs.front());
      continue;
    }
    made[op.output] = out.size();
    Step step{&op, {}, {}};
    for (auto input : op.inputs)
      step.from.push_back(maker(input));
    for (auto parameter : op.parameters)
      step.parameters.push_back(graph.parameters[parameter].shape);
    out.push_back(std::move(step));
  }
  return out;
}

bool is_same(const Step& a, const Step& b) {
  const auto of = [](const OpAttributes& x) {
    return std::tuple{x.activation, x.epsilon,     x.heads, x.key_heads(),
                      x.causal,     x.interleaved, x.base,  x.bias};
  };
  return a.op->kind == b.op->kind && a.from == b.from
         && a.parameters == b.parameters
         && of(a.op->attributes) == of(b.op->attributes);
}

/// Whether a graph computes what their model of a configuration does.
bool computes(const Graph& graph, const Json& config) {
  const auto theirs = build_graph(hugging_face_model(config, "config.json"));
  const auto own = steps_of(graph);
  return std::ranges::equal(own, steps_of(theirs), is_same);
}

} // namespace

bool is_hugging_face_config(const Json& json) {
  return json.is_object() && json.contains("model_type");
}

ModelSpec hugging_face_model(const Json& json, const std::string& where) {
  const Config config{json, where};
  const auto type = config.text("model_type", "");
  if (type == "gpt2")
    return gpt_of(config, where);
  if (type == "llama")
    return llama_of(config, where);
  config.refuse("model_type \"" + type
                + "\" is not computed here, only gpt2 and llama; another may "
                  "be written as a model file (docs/models.md)");
}

bool is_learned_tensor(const std::string& name) {
  return !name.ends_with(".attn.bias") && !name.ends_with(".attn.masked_bias")
         && !name.ends_with(".rotary_emb.inv_freq");
}

bool is_hugging_face_table(std::string_view name) {
  return name == "model.embed_tokens.weight" || name == "wte.weight"
         || name == "transformer.wte.weight";
}

std::vector<NamedTensor> from_hugging_face(const Graph& graph,
                                           std::vector<NamedTensor> tensors,
                                           const std::string& where) {
  if (std::ranges::none_of(tensors, [](const NamedTensor& tensor) {
        return is_hugging_face_table(tensor.name);
      }))
    return tensors;
  const Layouts layouts{graph};
  if (!layouts.known())
    throw InputError(where
                     + ": has the names of Hugging Face's GPT-2 or Llama, and "
                       "--model is neither; name its config.json, or gpt2:… "
                       "or llama:…");
  std::map<std::string, NamedTensor> theirs;
  for (auto& tensor : tensors) {
    auto name = with_prefix(tensor.name);
    theirs.insert_or_assign(std::move(name), std::move(tensor));
  }
  // A head that has the table of tokens may be written once more.
  if (std::ranges::none_of(layouts.all(), [](const Lying& lying) {
        return lying.parts.front().name == "lm_head.weight";
      }))
    theirs.erase("lm_head.weight");
  std::vector<NamedTensor> out;
  for (const auto& lying : layouts.all()) {
    const auto& parameter = layouts.parameter(lying);
    if (!lying.transposed) {
      out.push_back(
        take(theirs, lying.parts.front().name, parameter.shape, where));
      out.back().name = parameter.name;
      continue;
    }
    const auto rows = parameter.shape[0];
    const auto columns = parameter.shape[1];
    NamedTensor own{parameter.name, parameter.shape, {}};
    uint64_t first = 0;
    for (const auto& part : lying.parts) {
      const auto tensor = take(theirs, part.name, {part.count, rows}, where);
      own.values.resize(parameter.size());
      for_transposed(rows, columns, first, part.count,
                     [&](uint64_t here, uint64_t there) {
                       own.values[here] = tensor.values[there];
                     });
      first += part.count;
    }
    out.push_back(std::move(own));
  }
  for (auto& [name, tensor] : theirs)
    out.push_back(std::move(tensor)); // a stranger, whom the caller refuses
  return out;
}

HuggingFaceModel to_hugging_face(const Graph& graph,
                                 const std::vector<NamedTensor>& tensors) {
  const Layouts layouts{graph};
  const auto config = layouts.known() ? config_of(layouts, graph)
                                      : std::nullopt;
  if (!config || !computes(graph, *config))
    throw InputError("the model is no GPT-2 and no Llama as Hugging Face has "
                     "them; train gpt2:… or llama:…, or write the layout "
                     "yourself (docs/from_pytorch.md)");
  HuggingFaceModel out;
  out.config = config->dump(2) + '\n';
  for (const auto& lying : layouts.all()) {
    const auto& parameter = layouts.parameter(lying);
    const auto own = std::ranges::find(tensors, parameter.name,
                                       &NamedTensor::name);
    if (own == tensors.end() || own->values.size() != parameter.size())
      throw InputError("tensor " + parameter.name
                       + " is missing or has another shape");
    if (!lying.transposed) {
      out.tensors.push_back(
        {lying.parts.front().name, parameter.shape, own->values});
      continue;
    }
    const auto rows = parameter.shape[0];
    const auto columns = parameter.shape[1];
    uint64_t first = 0;
    for (const auto& part : lying.parts) {
      NamedTensor tensor{part.name, {part.count, rows}, {}};
      tensor.values.resize(part.count * rows);
      for_transposed(rows, columns, first, part.count,
                     [&](uint64_t here, uint64_t there) {
                       tensor.values[there] = own->values[here];
                     });
      first += part.count;
      out.tensors.push_back(std::move(tensor));
    }
  }
  return out;
}

} // namespace troupe

#include "kernels/graph/model_file.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/graph/hugging_face.hpp"
#include "kernels/graph/model_json.hpp"

#include <toml++/toml.h>

#include <filesystem>
#include <limits>

namespace troupe {

namespace {

using kernels::Json;

constexpr uint64_t largest_file = uint64_t{1} << 20;
constexpr uint64_t largest_extent = uint64_t{1} << 32;

/// A part of a model file and the place it has there.
struct Part {
  const Json& json;
  std::string where; ///< "tiny.toml: operators[2]"

  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError(where + ": " + what);
  }
  void expect(bool holds, const char* what) const {
    if (!holds)
      refuse(std::string{"expected "} + what);
  }
  Part at(const std::string& key) const {
    return {json.at(key), where + ": " + key};
  }
  Part at(size_t i) const {
    return {json.at(i), where + "[" + std::to_string(i) + "]"};
  }
  bool has(const char* key) const { return json.contains(key); }

  uint64_t count(uint64_t most) const {
    const auto what = "expected a whole number from 0 to "
                      + std::to_string(most);
    if (!json.is_number_integer()
        || (json.is_number_unsigned()
              ? json.get<uint64_t>() > most
              : json.get<int64_t>() < 0
                  || static_cast<uint64_t>(json.get<int64_t>()) > most))
      refuse(what);
    return json.get<uint64_t>();
  }
  uint32_t small() const {
    return static_cast<uint32_t>(count(std::numeric_limits<int32_t>::max()));
  }
  std::string text() const {
    expect(json.is_string(), "a text");
    return json.get<std::string>();
  }
  Shape shape() const {
    expect(json.is_array(), "a list of whole numbers");
    Shape result;
    for (size_t i = 0; i < json.size(); ++i)
      result.push_back(at(i).count(largest_extent));
    return result;
  }
  void check_keys(const std::vector<std::string>& known) const {
    for (const auto& [key, value] : json.items()) {
      bool found = false;
      std::string list;
      for (const auto& one : known) {
        found = found || one == key;
        list += (list.empty() ? "" : ", ") + one;
      }
      const auto near = nearest(key, known);
      if (!found)
        refuse("unknown key " + key
               + (near.empty() ? "; known are " + list
                               : "; did you mean " + near + "?"));
    }
  }
};

SampleShape sample_of(const Part& part) {
  part.expect(part.json.is_object(), "a table");
  part.check_keys({"features", "ids", "vocabulary", "label", "classes"});
  SampleShape sample;
  if (part.has("features"))
    sample.features = part.at("features").shape();
  if (part.has("ids"))
    sample.ids = part.at("ids").small();
  if (part.has("vocabulary"))
    sample.vocabulary = part.at("vocabulary").small();
  if (part.has("classes"))
    sample.classes = part.at("classes").small();
  if (part.has("label")) {
    const auto label = part.at("label");
    const auto kind = label_kind(label.text());
    label.expect(kind.has_value(), "classes, binary, number or tokens");
    sample.label = *kind;
  }
  if (!sample.known())
    part.refuse("says neither features nor ids and their vocabulary");
  if (sample.classes > 0 && sample.label != LabelKind::classes)
    part.refuse("classes go with label = \"classes\" alone");
  return sample;
}

AttributeValue attribute_of(const Part& part) {
  const auto& json = part.json;
  if (json.is_boolean())
    return json.get<bool>();
  if (json.is_number_float())
    return json.get<double>();
  if (json.is_string())
    return json.get<std::string>();
  if (json.is_array())
    return part.shape();
  part.expect(json.is_number_integer(),
              "a number, a text, true, false or a list of whole numbers");
  constexpr auto most = std::numeric_limits<int64_t>::max();
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{most})
    part.refuse("the number is too large");
  return json.get<int64_t>();
}

OpSpec operator_of(const Part& part) {
  part.expect(part.json.is_object(), "a table with a kind");
  OpSpec op;
  if (!part.has("kind"))
    part.refuse("has no kind, for example kind = \"dense\"");
  for (const auto& [key, value] : part.json.items()) {
    const auto item = part.at(key);
    if (key == "kind")
      op.kind = item.text();
    else if (key == "name")
      op.name = item.text();
    else if (key == "inputs" && value.is_string())
      op.inputs = {item.text()};
    else if (key == "inputs") {
      item.expect(value.is_array() && !value.empty(),
                  "the name of a value or a list of them");
      for (size_t i = 0; i < value.size(); ++i)
        op.inputs.push_back(item.at(i).text());
    } else
      op.attributes.emplace_back(key, attribute_of(item));
  }
  return op;
}

ModelSpec model_of(const Json& json, const std::string& where) {
  const Part all{json, where};
  all.expect(json.is_object(), "a table with sample and operators");
  all.check_keys({"name", "sample", "operators"});
  ModelSpec spec;
  spec.name = all.has("name") ? all.at("name").text() : where;
  if (!all.has("sample"))
    all.refuse("has no sample: say what a sample holds, for example "
               "features = [28, 28, 1]");
  spec.sample = sample_of(all.at("sample"));
  if (!all.has("operators"))
    all.refuse("has no operators");
  const auto operators = all.at("operators");
  operators.expect(operators.json.is_array(), "a list of operators");
  for (size_t i = 0; i < operators.json.size(); ++i)
    spec.operators.push_back(operator_of(operators.at(i)));
  return spec;
}

Json json_of(const toml::node& node, const std::string& where) {
  if (const auto* table = node.as_table()) {
    auto result = Json::object();
    for (const auto& [key, value] : *table)
      result[std::string{key.str()}] = json_of(value, where);
    return result;
  }
  if (const auto* array = node.as_array()) {
    auto result = Json::array();
    for (const auto& value : *array)
      result.push_back(json_of(value, where));
    return result;
  }
  if (const auto* value = node.as_string())
    return value->get();
  if (const auto* value = node.as_integer())
    return value->get();
  if (const auto* value = node.as_floating_point())
    return value->get();
  if (const auto* value = node.as_boolean())
    return value->get();
  throw UsageError(where + ":" + std::to_string(node.source().begin.line)
                   + ": a model file holds no dates and times");
}

Json json_of(const AttributeValue& value) {
  return std::visit([](const auto& content) { return Json(content); },
                    value.content);
}

Json json_of(const OpSpec& op) {
  Json json{{"kind", op.kind}};
  if (!op.name.empty())
    json["name"] = op.name;
  if (op.inputs.size() == 1)
    json["inputs"] = op.inputs[0];
  else if (!op.inputs.empty())
    json["inputs"] = op.inputs;
  for (const auto& [name, value] : op.attributes)
    json[name] = json_of(value);
  return json;
}

Json json_of(const SampleShape& sample) {
  auto json = Json::object();
  if (!sample.features.empty())
    json["features"] = sample.features;
  if (sample.ids > 0)
    json["ids"] = sample.ids;
  if (sample.vocabulary > 0)
    json["vocabulary"] = sample.vocabulary;
  json["label"] = to_string(sample.label);
  if (sample.classes > 0 && sample.label == LabelKind::classes)
    json["classes"] = sample.classes;
  return json;
}

} // namespace

ModelSpec parse_model_json(const std::string& text, const std::string& where) {
  const auto json = kernels::parse_json(text, where);
  return is_hugging_face_config(json) ? hugging_face_model(json, where)
                                      : model_of(json, where);
}

ModelSpec parse_model_toml(const std::string& text, const std::string& where) {
  try {
    return model_of(json_of(toml::parse(text, where), where), where);
  } catch (const toml::parse_error& mistake) {
    const auto begin = mistake.source().begin;
    throw UsageError(where + ":" + std::to_string(begin.line) + ":"
                     + std::to_string(begin.column) + ": not valid TOML: "
                     + std::string{mistake.description()});
  }
}

ModelSpec read_model_file(const std::string& path) {
  const auto text = whole_file(path, largest_file, "a model file");
  auto spec = path.ends_with(".toml") ? parse_model_toml(text, path)
                                      : parse_model_json(text, path);
  spec.name = std::filesystem::path{path}.filename().string();
  return spec;
}

std::string to_json(const ModelSpec& spec, bool pretty) {
  const std::string line = pretty ? "\n" : "";
  const std::string indent = pretty ? "  " : "";
  auto out = "{" + line + indent + "\"name\": " + kernels::dumped(spec.name)
             + "," + line + indent
             + "\"sample\": " + kernels::dumped(json_of(spec.sample)) + ","
             + line + indent + "\"operators\": [" + line;
  for (const auto& op : spec.operators)
    out += indent + indent + kernels::dumped(json_of(op))
           + (&op == &spec.operators.back() ? "" : ",") + line;
  return out + indent + "]" + line + "}" + line;
}

} // namespace troupe

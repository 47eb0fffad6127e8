#include "kernels/base/suggestion.hpp"
#include "kernels/graph/foreign_kinds.hpp"
#include "kernels/graph/op_rules.hpp"

#include <algorithm>
#include <type_traits>

namespace troupe {

namespace {

constexpr std::string_view activation_names[] = {
  "none", "relu", "gelu", "silu", "tanh", "sigmoid", "gelu_tanh"};
constexpr std::string_view initializer_names[] = {
  "zeros", "ones", "he_uniform", "uniform", "normal", "fan_in_uniform"};
constexpr std::string_view mode_names[] = {"sum", "mean"};

} // namespace

std::string to_string(Activation activation) {
  return std::string{activation_names[static_cast<size_t>(activation)]};
}

namespace kernels {

std::string_view name_of(Initializer initializer) {
  return initializer_names[static_cast<size_t>(initializer)];
}

namespace {

constexpr uint64_t largest_count = (uint64_t{1} << 31) - 1;

/// One attribute and its value, with the operator that it is for.
struct Given {
  OpSite& site;
  const std::string& name;
  const AttributeValue& value;

  [[noreturn]] void expect(const std::string& what) const {
    site.refuse(name + " is not " + what);
  }

  template <class T>
  const T& as(const char* what) const {
    if (const auto* content = std::get_if<T>(&value.content))
      return *content;
    expect(what);
  }

  bool flag() const { return as<bool>("true or false"); }

  uint64_t count(uint64_t least) const {
    if (const auto* word = std::get_if<std::string>(&value.content))
      return of_sample(*word);
    const auto number = as<int64_t>("a whole number");
    if (number < static_cast<int64_t>(least)
        || number > static_cast<int64_t>(largest_count))
      expect("a whole number from " + std::to_string(least) + " to "
             + std::to_string(largest_count));
    return static_cast<uint64_t>(number);
  }

  /// A number that the data set gives.
  uint64_t of_sample(const std::string& word) const {
    const auto& sample = site.sample();
    uint64_t result = 0;
    if (word == "classes")
      result = sample.label == LabelKind::classes  ? sample.classes
               : sample.label == LabelKind::binary ? 2
               : sample.label == LabelKind::tokens ? sample.vocabulary
                                                   : 0;
    else if (word == "vocabulary")
      result = sample.vocabulary;
    else if (word == "ids")
      result = sample.ids;
    else if (word == "features")
      result = sample.features.empty() ? 0 : elements(sample.features);
    else
      expect("a whole number, \"classes\", \"vocabulary\", \"ids\" or "
             "\"features\"");
    site.check(result > 0,
               name + " is \"" + word + "\", but a sample has none");
    return result;
  }

  double real(double least, double most, bool open) const {
    double number = 0;
    if (const auto* whole = std::get_if<int64_t>(&value.content))
      number = static_cast<double>(*whole);
    else
      number = as<double>("a number");
    if (!(open ? number > least : number >= least) || !(number <= most))
      expect("a number " + std::string{open ? "above " : "from "} + shown(least)
             + " to " + shown(most));
    return number;
  }

  static std::string shown(double number) {
    return std::to_string(static_cast<uint64_t>(number));
  }

  const Shape& list() const { return as<Shape>("a list of whole numbers"); }

  template <class Enum, size_t N>
  Enum word(const std::string_view (&names)[N]) const {
    const auto& text = as<std::string>("a word");
    std::string known;
    for (size_t i = 0; i < N; ++i) {
      if (text == names[i])
        return static_cast<Enum>(i);
      known += (i == 0 ? "" : ", ") + std::string{names[i]};
    }
    expect("one of: " + known);
  }
};

using Out = OpAttributes;

void set_stride(const Given& given, Out& out) {
  out.stride = static_cast<uint32_t>(given.count(1));
  given.site.own_stride = true;
}
void set_padding(const Given& given, Out& out) {
  given.site.same_padding = given.value == AttributeValue{"same"};
  out.padding = given.site.same_padding ? 0
                                        : static_cast<uint32_t>(given.count(0));
}
void set_rate(const Given& given, Out& out) {
  out.rate = static_cast<float>(given.real(0, 1, false));
  given.site.check(out.rate < 1, "rate 1 would drop everything");
}
void set_permutation(const Given& given, Out& out) {
  out.permutation.clear();
  for (auto axis : given.list())
    out.permutation.push_back(
      static_cast<uint32_t>(std::min(axis, largest_count)));
}
void set_activation(const Given& given, Out& out) {
  out.activation = given.word<Activation>(activation_names);
}
void set_mode(const Given& given, Out& out) {
  out.mode = given.word<BagMode>(mode_names);
}
void set_epsilon(const Given& given, Out& out) {
  out.epsilon = static_cast<float>(given.real(0, 1, true));
}
void set_momentum(const Given& given, Out& out) {
  out.momentum = static_cast<float>(given.real(0, 1, true));
}
void set_base(const Given& given, Out& out) {
  out.base = given.real(1, 1e9, true);
}
void set_weight(const Given& given, Out&) {
  given.site.weight.shared = given.as<std::string>("the name of a parameter");
}
void set_initializer(const Given& given, Out&) {
  given.site.weight.initializer = given.word<Initializer>(initializer_names);
}
void set_scale(const Given& given, Out&) {
  given.site.weight.scale = given.real(0, 1e6, true);
}

/// Of attributes that are one whole number, or true or false.
template <auto Member, uint64_t Least>
void set_count(const Given& given, Out& out) {
  using Number = std::remove_reference_t<decltype(out.*Member)>;
  out.*Member = static_cast<Number>(given.count(Least));
}
template <auto Member>
void set_flag(const Given& given, Out& out) {
  out.*Member = given.flag();
}

struct AttributeRule {
  std::string_view name;
  void (*store)(const Given& given, OpAttributes& out);
};

constexpr AttributeRule attribute_rules[] = {
  {"units", set_count<&Out::units, 1>},
  {"activation", set_activation},
  {"bias", set_flag<&Out::bias>},
  {"transposed", set_flag<&Out::transposed>},
  {"kernel", set_count<&Out::kernel, 1>},
  {"stride", set_stride},
  {"padding", set_padding},
  {"groups", set_count<&Out::groups, 1>},
  {"epsilon", set_epsilon},
  {"momentum", set_momentum},
  {"cross_replica", set_flag<&Out::cross_replica>},
  {"rate", set_rate},
  {"width", set_count<&Out::width, 1>},
  {"vocabulary", set_count<&Out::vocabulary, 1>},
  {"mode", set_mode},
  {"heads", set_count<&Out::heads, 1>},
  {"key_value_heads", set_count<&Out::key_value_heads, 1>},
  {"base", set_base},
  {"interleaved", set_flag<&Out::interleaved>},
  {"causal", set_flag<&Out::causal>},
  {"axis", set_count<&Out::axis, 0>},
  {"begin", set_count<&Out::begin, 0>},
  {"end", set_count<&Out::end, 1>},
  {"shape", [](const Given& given, Out& out) { out.shape = given.list(); }},
  {"permutation", set_permutation},
  {"weight", set_weight},
  {"initializer", set_initializer},
  {"scale", set_scale},
};

} // namespace

void set_attribute(OpSite& site, const OpRule& rule, const std::string& name,
                   const AttributeValue& value) {
  const auto& known = rule.attributes;
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    std::string list;
    for (auto one : known)
      list += (list.empty() ? "" : ", ") + std::string{one};
    const auto near = meant(name, {known.begin(), known.end()},
                            foreign_attributes());
    site.refuse(std::string{rule.name} + " has no attribute " + name
                + (near.empty() ? "" : " (did you mean " + near + "?)")
                + (list.empty() ? "; it takes none" : "; it takes " + list));
  }
  for (const auto& attribute : attribute_rules)
    if (attribute.name == name)
      attribute.store({site, name, value}, site.op.attributes);
}

} // namespace kernels

} // namespace troupe

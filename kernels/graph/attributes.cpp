#include "kernels/graph/op_rules.hpp"
#include "kernels/suggestion.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

constexpr std::string_view activation_names[] = {"none", "relu", "gelu",
                                                 "silu", "tanh", "sigmoid"};
constexpr std::string_view initializer_names[] = {"zeros", "ones", "he_uniform",
                                                  "uniform", "normal"};
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

  uint32_t small(uint64_t least) const {
    return static_cast<uint32_t>(count(least));
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
    return number == 0 ? "0" : number == 1 ? "1" : "1000000";
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

struct AttributeRule {
  std::string_view name;
  void (*store)(const Given& given, OpAttributes& out);
};

const AttributeRule attribute_rules[] = {
  {"units", [](auto& given, auto& out) { out.units = given.count(1); }},
  {"activation",
   [](auto& given, auto& out) {
     out.activation = given.template word<Activation>(activation_names);
   }},
  {"bias", [](auto& given, auto& out) { out.bias = given.flag(); }},
  {"transposed", [](auto& given, auto& out) { out.transposed = given.flag(); }},
  {"kernel", [](auto& given, auto& out) { out.kernel = given.small(1); }},
  {"stride",
   [](auto& given, auto& out) {
     out.stride = given.small(1);
     given.site.own_stride = true;
   }},
  {"padding",
   [](auto& given, auto& out) {
     given.site.same_padding = given.value == AttributeValue{"same"};
     out.padding = given.site.same_padding ? 0 : given.small(0);
   }},
  {"groups", [](auto& given, auto& out) { out.groups = given.small(1); }},
  {"epsilon",
   [](auto& given, auto& out) {
     out.epsilon = static_cast<float>(given.real(0, 1, true));
   }},
  {"momentum",
   [](auto& given, auto& out) {
     out.momentum = static_cast<float>(given.real(0, 1, true));
   }},
  {"cross_replica",
   [](auto& given, auto& out) { out.cross_replica = given.flag(); }},
  {"rate",
   [](auto& given, auto& out) {
     out.rate = static_cast<float>(given.real(0, 1, false));
     given.site.check(out.rate < 1, "rate 1 would drop everything");
   }},
  {"width", [](auto& given, auto& out) { out.width = given.count(1); }},
  {"vocabulary",
   [](auto& given, auto& out) { out.vocabulary = given.count(1); }},
  {"mode",
   [](auto& given, auto& out) {
     out.mode = given.template word<BagMode>(mode_names);
   }},
  {"heads", [](auto& given, auto& out) { out.heads = given.small(1); }},
  {"causal", [](auto& given, auto& out) { out.causal = given.flag(); }},
  {"axis", [](auto& given, auto& out) { out.axis = given.small(0); }},
  {"begin", [](auto& given, auto& out) { out.begin = given.count(0); }},
  {"end", [](auto& given, auto& out) { out.end = given.count(1); }},
  {"shape", [](auto& given, auto& out) { out.shape = given.list(); }},
  {"permutation",
   [](auto& given, auto& out) {
     out.permutation.clear();
     for (auto axis : given.list())
       out.permutation.push_back(
         static_cast<uint32_t>(std::min(axis, largest_count)));
   }},
  {"weight",
   [](auto& given, auto&) {
     given.site.weight.shared =
       given.template as<std::string>("the name of a parameter");
   }},
  {"initializer",
   [](auto& given, auto&) {
     given.site.weight.initializer =
       given.template word<Initializer>(initializer_names);
   }},
  {"scale", [](auto& given,
               auto&) { given.site.weight.scale = given.real(0, 1e6, true); }},
};

} // namespace

void set_attribute(OpSite& site, const OpRule& rule, const std::string& name,
                   const AttributeValue& value) {
  const auto& known = rule.attributes;
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    std::string list;
    for (auto one : known)
      list += (list.empty() ? "" : ", ") + std::string{one};
    const auto near = nearest(name, {known.begin(), known.end()});
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

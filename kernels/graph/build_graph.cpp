#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/graph/foreign_kinds.hpp"
#include "kernels/graph/model_spec.hpp"
#include "kernels/graph/op_rules.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

using kernels::OpRule;
using kernels::OpSite;

constexpr uint64_t max_elements = uint64_t{1} << 32;

/// What a model sees of a data set: text has windows of the model's length.
SampleShape fitted(const ModelSpec& spec, const SampleShape& sample) {
  auto result = sample.known() ? sample : spec.sample;
  if (result.label == LabelKind::tokens && result.ids == 0)
    result.ids = spec.sample.ids;
  return result;
}

class Builder {
public:
  Builder(const ModelSpec& spec, const SampleShape& sample) : spec_(spec) {
    graph_.sample = fitted(spec, sample);
  }

  Graph build() {
    add_inputs();
    for (size_t i = 0; i < spec_.operators.size(); ++i)
      add(i);
    check_all();
    return std::move(graph_);
  }

private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError("model " + spec_.name + ": " + what);
  }

  uint32_t add_value(Value value) {
    used_.push_back(0);
    values_[value.name] = static_cast<uint32_t>(graph_.values.size());
    graph_.values.push_back(std::move(value));
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }

  void add_inputs() {
    const auto& sample = graph_.sample;
    if (spec_.operators.empty())
      refuse("has no operators");
    if (!sample.features.empty()) {
      check_size(sample.features, "features");
      graph_.features_value =
        add_value({"features", sample.features, ValueType::float32});
    }
    if (sample.ids > 0)
      graph_.ids_value = add_value({"ids", {sample.ids}, ValueType::int32});
    if (sample.ids > 0 && sample.vocabulary == 0)
      refuse("its sample has ids but no vocabulary");
    if (graph_.values.empty())
      refuse("its sample has neither features nor ids");
  }

  void check_size(const Shape& shape, const std::string& what) const {
    uint64_t size = 1;
    for (auto extent : shape) {
      if (extent == 0 || extent > max_elements / size)
        refuse(what + ": " + to_string(shape) + " is "
               + (extent == 0 ? "empty" : "too large"));
      size *= extent;
    }
  }

  /// The name that is given, else kind and number; of the loss: loss.
  std::string name_of(const OpSpec& op, const OpRule& rule) {
    const auto number = numbers_[op.kind]++;
    if (!op.name.empty())
      return op.name;
    return rule.is_loss() ? "loss" : op.kind + "_" + std::to_string(number);
  }

  const OpRule& rule_of(const OpSpec& op, size_t at) const {
    if (const auto* rule = kernels::find_rule(op.kind))
      return *rule;
    std::vector<std::string> known;
    for (const auto& rule : kernels::op_rules())
      known.emplace_back(rule.name);
    const auto near = meant(op.kind, known, kernels::foreign_kinds());
    refuse("operator " + (op.name.empty() ? std::to_string(at) : op.name)
           + ": unknown kind " + op.kind
           + (near.empty() ? "; docs/models.md lists them"
                           : "; did you mean " + near + "?"));
  }

  void check_name(const std::string& name) const {
    constexpr size_t longest = 100;
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
             || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    });
    if (!plain || name.size() > longest)
      refuse("operator \"" + name
             + "\": a name is of letters, digits, _, - and ., at most "
             + std::to_string(longest));
    if (name == "features" || name == "ids" || values_.count(name) > 0)
      refuse("operator " + name + ": there is a value of this name already");
  }

  std::vector<uint32_t> inputs_of(const OpSpec& op, const OpSite& site) {
    std::vector<uint32_t> result;
    for (const auto& name : op.inputs) {
      const auto found = values_.find(name);
      if (found == values_.end())
        site.refuse(
          "there is no value '" + name + "' before it"
          + (name == "ids" ? ": these data have none" : suggestion(name)));
      result.push_back(found->second);
    }
    if (!result.empty())
      return result;
    if (!graph_.ops.empty())
      return {graph_.ops.back().output};
    site.check(graph_.values.size() == 1,
               "samples have features and ids; name its inputs");
    return {0};
  }

  std::string suggestion(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& value : graph_.values)
      known.push_back(value.name);
    const auto near = nearest(name, known);
    return near.empty() ? "" : "; did you mean " + near + "?";
  }

  static void check_inputs(const OpSite& site, const OpRule& rule) {
    const auto kind = std::string{rule.name};
    const auto count = site.inputs();
    if (count < rule.fewest_inputs || count > rule.max_inputs)
      site.refuse(kind + " takes "
                  + (rule.max_inputs > 2 ? "two or more inputs"
                     : rule.max_inputs > rule.fewest_inputs
                       ? "one or two inputs"
                     : rule.max_inputs == 2 ? "two inputs"
                                            : "one input")
                  + ", not " + std::to_string(count));
    for (size_t i = 0; i < count; ++i) {
      const bool ids = site.input(i).type == ValueType::int32;
      if (rule.takes_ids() && i == 0)
        site.check(ids, kind + " takes ids, not " + site.input(i).name);
      else
        site.check(!ids,
                   kind + " takes float32 values, not " + site.input(i).name);
    }
  }

  void add(size_t i) {
    const auto& given = spec_.operators[i];
    const auto& rule = rule_of(given, i);
    const auto name = name_of(given, rule);
    check_name(name);
    const auto where = "operator " + name;
    OpSite site{graph_, {}, "model " + spec_.name + ": " + where};
    site.op.kind = rule.kind;
    site.op.name = name;
    site.op.inputs = inputs_of(given, site);
    check_inputs(site, rule);
    for (auto at = given.attributes.begin(); at != given.attributes.end();
         ++at) {
      for (auto other = given.attributes.begin(); other != at; ++other)
        site.check(other->first != at->first,
                   "the attribute " + at->first + " is there twice");
      kernels::set_attribute(site, rule, at->first, at->second);
    }
    site.check(rule.is_loss() == (i + 1 == spec_.operators.size()),
               rule.is_loss() ? "a loss comes last and once"
                              : "the last operator must be a loss");
    auto shape = rule.shape(site);
    check_size(shape, where);
    for (auto input : site.op.inputs)
      used_[input] = 1;
    const auto after = activation_after(site.op);
    const auto sums = after == Activation::none ? name : name + ".sums";
    if (sums != name)
      check_name(sums);
    site.op.output = add_value({sums, shape, ValueType::float32});
    graph_.ops.push_back(std::move(site.op));
    if (sums != name)
      add_activation(name, after, std::move(shape));
  }

  /// Takes away the activation that an operator does not compute itself, for
  /// one of its own to compute.
  static Activation activation_after(Op& op) {
    const bool splits = op.kind == OpKind::conv2d
                        || op.kind == OpKind::batch_norm;
    if (!splits || op.attributes.activation == Activation::relu)
      return Activation::none;
    return std::exchange(op.attributes.activation, Activation::none);
  }

  void add_activation(const std::string& name, Activation activation,
                      Shape shape) {
    Op op;
    op.kind = OpKind::activation;
    op.name = name + "." + to_string(activation);
    op.inputs = {graph_.ops.back().output};
    op.attributes.activation = activation;
    used_[op.inputs[0]] = 1;
    op.output = add_value({name, std::move(shape), ValueType::float32});
    graph_.ops.push_back(std::move(op));
  }

  void check_all() const {
    for (size_t i = 0; i + 1 < graph_.values.size(); ++i)
      if (!used_[i])
        refuse("nothing uses " + graph_.values[i].name);
    if (graph_.parameter_count() == 0)
      refuse("has no parameters to train");
    if (graph_.parameter_count() > max_elements)
      refuse(std::to_string(graph_.parameter_count())
             + " parameters are more than the " + std::to_string(max_elements)
             + " supported");
    check_labels();
  }

  void check_labels() const {
    const auto& sample = graph_.sample;
    const auto where = "operator " + graph_.loss().name + ": ";
    const auto kind = to_string(graph_.loss().kind);
    const auto& logits = graph_.values[graph_.loss().inputs[0]].shape;
    const auto classes = graph_.classes();
    auto check = [&](bool holds, const std::string& what) {
      if (!holds)
        refuse(where + what);
    };
    auto too_few = [&](uint64_t wanted, const char* of) {
      check(classes >= wanted,
            to_string(logits) + " has " + std::to_string(classes)
              + " outputs but the data has " + std::to_string(wanted) + of);
    };
    const bool numbers = graph_.loss().kind == OpKind::mean_squared_error;
    check(numbers == (sample.label == LabelKind::number),
          kind
            + (numbers ? " is for numbers, not for classes"
                       : " is for classes, not for numbers"));
    const uint64_t labels = sample.label == LabelKind::tokens ? sample.ids : 1;
    check(graph_.labels() == labels,
          "the outputs " + to_string(logits) + " are for "
            + std::to_string(graph_.labels()) + " labels but a sample has "
            + std::to_string(labels));
    switch (sample.label) {
      case LabelKind::classes:
        return too_few(sample.classes, " classes");
      case LabelKind::binary:
        return too_few(2, " classes");
      case LabelKind::tokens:
        return too_few(sample.vocabulary, " ids");
      case LabelKind::number:
        return;
    }
  }

  const ModelSpec& spec_;
  Graph graph_;
  std::map<std::string, uint32_t> values_;
  std::map<std::string, uint64_t> numbers_;
  std::vector<uint8_t> used_;
};

} // namespace

Graph build_graph(const ModelSpec& spec, const SampleShape& sample) {
  return Builder{spec, sample}.build();
}

} // namespace troupe

#pragma once

#include "kernels/graph/graph.hpp"

#include <concepts>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

/// The value of an operator's attribute, as a model file holds it.
class AttributeValue {
public:
  using Content = std::variant<bool, int64_t, double, std::string, Shape>;

  AttributeValue(bool value) : content(value) {}
  template <std::integral Integer>
  AttributeValue(Integer value) : content(static_cast<int64_t>(value)) {}
  AttributeValue(double value) : content(value) {}
  AttributeValue(const char* value) : content(std::string{value}) {}
  AttributeValue(std::string value) : content(std::move(value)) {}
  AttributeValue(Shape value) : content(std::move(value)) {}

  bool operator==(const AttributeValue&) const = default;

  Content content;
};

/// An operator of a model, as plain data.
struct OpSpec {
  std::string kind; ///< "dense"; of OpKind
  /// Its output's name too. Empty: kind and number, dense_0; of the loss: loss.
  std::string name = {};
  /// Names of operators before it, "features" or "ids". Empty: the output of
  /// the one before, of the first: what a sample holds, where that is one.
  std::vector<std::string> inputs = {};
  std::vector<std::pair<std::string, AttributeValue>> attributes = {};

  bool operator==(const OpSpec&) const = default;
};

/// A model as plain data: what a model file says, and what built-in models are
/// written in. docs/models.md lists kinds and attributes.
struct ModelSpec {
  std::string name;   ///< for messages
  SampleShape sample; ///< what it is made for; ids of text: its window
  std::vector<OpSpec> operators = {};

  bool operator==(const ModelSpec&) const = default;
};

/// Makes the graph of a model for samples of a shape: the one path from data
/// to Graph. Where the shape is not known(), the one it was made for. Text has
/// no length of its own: its ids are the model's window.
/// Parameters are in the order of the operators; Graph::text is empty.
/// Errors: UsageError, naming the operator and the shapes that do not fit.
Graph build_graph(const ModelSpec& spec, const SampleShape& sample = {});

/// The name of a kind as models write it, "max_pool".
std::string to_string(OpKind kind);
std::string to_string(Activation activation);

} // namespace troupe

#pragma once

#include "kernels/graph/op_site.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::kernels {

/// How one kind of operator enters a graph.
struct OpRule {
  OpKind kind;
  std::string_view name;
  size_t fewest_inputs;
  size_t max_inputs;
  std::vector<std::string_view> attributes; ///< those that it takes
  /// Checks inputs and attributes, declares parameters and returns the shape of
  /// the output. The first input of embeddings is int32, all others float32:
  /// checked already. Source: the shapes stated at OpKind.
  Shape (*shape)(OpSite& site);

  bool is_loss() const { return kind >= OpKind::softmax_cross_entropy; }
  bool takes_ids() const {
    return kind == OpKind::embedding || kind == OpKind::embedding_bag;
  }
};

std::span<const OpRule> op_rules();
/// Null for an unknown name.
const OpRule* find_rule(std::string_view name);

/// Stores an attribute in its place.
/// Errors: UsageError for a value of the wrong type or out of range, and for a
/// name that the rule does not take.
void set_attribute(OpSite& site, const OpRule& rule, const std::string& name,
                   const AttributeValue& value);

std::string_view name_of(Initializer initializer);

} // namespace troupe::kernels

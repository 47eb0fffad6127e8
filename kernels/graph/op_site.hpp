#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/graph/model_spec.hpp"

#include <optional>
#include <string>

namespace troupe::kernels {

/// What an operator says about its weight or table.
struct WeightChoice {
  std::string shared; ///< the parameter of another operator; empty: an own one
  std::optional<Initializer> initializer;
  std::optional<double> scale;
};

/// An operator on its way into a graph: what its rule reads, checks and
/// declares.
class OpSite {
public:
  OpSite(Graph& graph, Op op, std::string where)
    : op(std::move(op)), graph_(graph), where_(std::move(where)) {}

  Op op;
  WeightChoice weight;
  bool same_padding = false; ///< padding is "same"
  bool own_stride = false;   ///< a stride is given

  size_t inputs() const { return op.inputs.size(); }
  const Value& input(size_t i = 0) const { return graph_.values[op.inputs[i]]; }
  const Shape& shape(size_t i = 0) const { return input(i).shape; }
  const SampleShape& sample() const { return graph_.sample; }

  /// Adds the weight or table, or takes the one that is shared.
  void add_weight(const char* name, Shape shape, uint64_t fan_in,
                  Initializer initializer, double scale);
  void add_parameter(const char* name, Shape shape, Initializer initializer,
                     uint64_t fan_in);
  /// Adds a running statistic, which follows with the operator's momentum.
  void add_statistic(const char* name, Shape shape, Initializer initializer);

  [[noreturn]] void refuse(const std::string& what) const;
  void check(bool holds, const std::string& what) const {
    if (!holds)
      refuse(what);
  }
  /// An attribute that has no default.
  void need(bool given, const char* attribute) const;
  /// The first input has so many extents at least.
  void need_extents(size_t least, const char* what) const;

private:
  uint32_t declare(Parameter parameter);

  Graph& graph_;
  std::string where_; ///< "model tiny.toml: operator add_1"
};

} // namespace troupe::kernels

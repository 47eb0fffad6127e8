#include "kernels/graph/op_site.hpp"

#include "kernels/base/error.hpp"

namespace troupe::kernels {

namespace {

constexpr uint64_t max_elements = uint64_t{1} << 32;

} // namespace

void OpSite::refuse(const std::string& what) const {
  throw UsageError(where_ + ": " + what);
}

void OpSite::need(bool given, const char* attribute) const {
  check(given, to_string(op.kind) + " needs the attribute " + attribute);
}

void OpSite::need_extents(size_t least, const char* what) const {
  check(shape().size() >= least,
        to_string(op.kind) + " takes " + what + ", not " + to_string(shape()));
}

uint32_t OpSite::declare(Parameter parameter) {
  uint64_t size = 1;
  for (auto extent : parameter.shape) {
    if (extent == 0 || extent > max_elements / size)
      refuse("a parameter " + to_string(parameter.shape) + " is "
             + (extent == 0 ? "empty" : "too large"));
    size *= extent;
  }
  parameter.name = op.name + "/" + parameter.name;
  graph_.parameters.push_back(std::move(parameter));
  return static_cast<uint32_t>(graph_.parameters.size() - 1);
}

void OpSite::add_weight(const char* name, Shape shape, uint64_t fan_in,
                        Initializer initializer, double scale) {
  const bool table = op.kind == OpKind::embedding
                     || op.kind == OpKind::embedding_bag;
  if (weight.shared.empty()) {
    Parameter parameter{name, std::move(shape), initializer, fan_in};
    parameter.initializer = weight.initializer.value_or(initializer);
    parameter.scale = weight.scale.value_or(scale);
    parameter.decays = parameter.shape.size() >= 2;
    parameter.by_rows = table;
    const bool scaled = parameter.initializer == Initializer::uniform
                        || parameter.initializer == Initializer::normal;
    check(scaled || !weight.scale,
          "scale goes with the initializers uniform and normal alone");
    check(!scaled || parameter.scale > 0,
          "the initializers uniform and normal need the attribute scale");
    if (!scaled)
      parameter.scale = 0;
    op.parameters.push_back(declare(std::move(parameter)));
    return;
  }
  check(!weight.initializer && !weight.scale,
        "a shared weight has the initializer of its owner");
  for (uint32_t i = 0; i < graph_.parameters.size(); ++i) {
    auto& owner = graph_.parameters[i];
    if (owner.name != weight.shared)
      continue;
    check(owner.shape == shape, "its weight is " + to_string(shape) + " but "
                                  + owner.name + " is "
                                  + to_string(owner.shape));
    check(owner.role == ParameterRole::trained,
          owner.name + " is a running statistic");
    // A dense operator touches all rows of a table.
    owner.by_rows = owner.by_rows && table;
    op.parameters.push_back(i);
    return;
  }
  refuse("there is no parameter " + weight.shared + " before it");
}

void OpSite::add_parameter(const char* name, Shape shape,
                           Initializer initializer, uint64_t fan_in) {
  Parameter parameter{name, std::move(shape), initializer, fan_in};
  parameter.decays = parameter.shape.size() >= 2;
  op.parameters.push_back(declare(std::move(parameter)));
}

void OpSite::add_statistic(const char* name, Shape shape,
                           Initializer initializer) {
  Parameter parameter{name, std::move(shape), initializer};
  parameter.role = ParameterRole::statistic;
  parameter.momentum = op.attributes.momentum;
  parameter.decays = false;
  op.parameters.push_back(declare(std::move(parameter)));
}

} // namespace troupe::kernels

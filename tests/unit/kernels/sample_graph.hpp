#pragma once

#include "kernels/data/dataset.hpp"

#include <cstdint>
#include <utility>

namespace troupe::testing {

/// A graph that takes what the samples have, for BatchMemory.
inline Graph graph_of(const SampleShape& shape, uint64_t labels = 1) {
  Graph graph;
  graph.sample = shape;
  auto add = [&](Shape extents, ValueType type) {
    graph.values.push_back({"", std::move(extents), type});
    return static_cast<uint32_t>(graph.values.size() - 1);
  };
  if (!shape.features.empty())
    graph.features_value = add(shape.features, ValueType::float32);
  const bool text = shape.label == LabelKind::tokens;
  if (shape.vocabulary > 0)
    graph.ids_value = add({text ? labels : shape.ids}, ValueType::int32);
  Op loss;
  loss.kind = shape.label == LabelKind::number ? OpKind::mean_squared_error
              : shape.label == LabelKind::binary
                ? OpKind::sigmoid_cross_entropy
                : OpKind::softmax_cross_entropy;
  const auto outputs = text ? shape.vocabulary : shape.classes;
  Shape logits{loss.kind == OpKind::softmax_cross_entropy ? outputs : 1};
  if (text)
    logits.insert(logits.begin(), labels);
  loss.inputs = {add(logits, ValueType::float32)};
  loss.output = add({}, ValueType::float32);
  graph.ops.push_back(loss);
  return graph;
}

} // namespace troupe::testing

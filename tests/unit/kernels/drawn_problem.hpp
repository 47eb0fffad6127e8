#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace troupe::test {

/// Samples of clicks.
inline SampleShape clicks(uint64_t features, uint32_t ids,
                          uint32_t vocabulary) {
  SampleShape sample;
  if (features > 0)
    sample.features = {features};
  sample.ids = ids;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::binary;
  return sample;
}

/// Parameters and a batch of a graph, drawn.
struct DrawnProblem {
  DrawnProblem(const Graph& of, uint32_t rows)
    : graph(of), layout(of), memory(of, rows), parameters(layout.total) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> unit(-1, 1);
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
      const auto& parameter = graph.parameters[i];
      auto* at = parameters.data() + layout.offsets[i];
      initialize(graph, 4, i, 0, at, parameter.size());
      const bool variance = parameter.role == ParameterRole::statistic
                            && parameter.initializer == Initializer::ones;
      for (size_t k = 0; k < parameter.size(); ++k)
        at[k] += (variance ? 0.5f : 0.2f)
                 * (variance ? std::abs(unit(random)) : unit(random));
    }
    for (size_t i = 0; i < rows * graph.features(); ++i)
      memory.features()[i] = unit(random);
    const bool absent = graph.sample.label != LabelKind::tokens;
    for (size_t i = 0; i < rows * graph.ids(); ++i)
      memory.ids()[i] =
        absent && i % 5 == 0
          ? -1
          : static_cast<int32_t>(random() % graph.sample.vocabulary);
    for (size_t i = 0; i < rows * graph.labels(); ++i)
      if (graph.classes() > 0)
        memory.labels()[i] = static_cast<int32_t>(random() % graph.classes());
      else
        memory.targets()[i] = unit(random);
    batch = memory.batch(rows, 5);
  }

  Graph graph;
  Layout layout;
  BatchMemory memory;
  Buffer parameters;
  Batch batch;
};

/// The largest difference of two parameters' values, as a part of the largest
/// value.
inline double difference(const float* a, const float* b, size_t count) {
  double largest = 1e-3;
  double off = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return INFINITY;
    largest = std::max(largest, std::abs(double{b[i]}));
    off = std::max(off, std::abs(double{a[i]} - double{b[i]}));
  }
  return off / largest;
}

} // namespace troupe::test

#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/on_stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace troupe::test {

/// Lets a test run only where there is a GPU; Boost.Test says what it left out.
inline boost::test_tools::assertion_result
has_gpu(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(cuda_device_count() > 0);
  result.message() << "no usable CUDA device";
  return result;
}

/// Samples that every built-in model of the kind takes.
inline SampleShape sample_of(const std::string& model) {
  SampleShape sample;
  if (on_stand_in() && (model == "cnn" || model.starts_with("resnet"))) {
    sample.features = {12, 12, 3};
    sample.classes = 10;
  }
  if (model.starts_with("transformer") || model.starts_with("llama")) {
    // A block takes a row of many logits, a warp one of few.
    sample.vocabulary = model.starts_with("llama") ? 1032 : 65;
    sample.label = LabelKind::tokens;
  }
  return sample;
}

/// Parameters and a batch for a model, from a fixed seed.
struct Problem {
  Graph graph;
  Layout layout;
  Buffer parameters;
  BatchMemory memory;
  Batch batch;

  Problem(const std::string& model, uint32_t rows)
    : graph(make_graph(model, sample_of(model))),
      layout(graph),
      parameters(layout.total),
      memory(graph, rows) {
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i)
      initialize(graph, 11, i, 0, parameters.data() + layout.offsets[i],
                 graph.parameters[i].size());
    std::mt19937 random(5);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (uint64_t i = 0; i < rows * graph.features(); ++i)
      memory.features()[i] = draw(random);
    const auto vocabulary = std::max(1u, graph.sample.vocabulary);
    for (uint64_t i = 0; i < rows * graph.ids(); ++i)
      memory.ids()[i] = static_cast<int32_t>(random() % vocabulary);
    for (uint64_t i = 0; i < rows * graph.labels(); ++i) {
      if (graph.classes() > 0)
        memory.labels()[i] = static_cast<int32_t>(random() % graph.classes());
      else
        memory.targets()[i] = draw(random);
    }
    batch = memory.batch(rows, 42);
  }

  /// What a replica makes of the batch.
  struct Result {
    std::vector<float> gradient;
    LeafStats stats;

    bool operator==(const Result& other) const {
      return gradient == other.gradient
             && stats.loss_sum == other.stats.loss_sum
             && stats.correct == other.stats.correct;
    }
  };
  Result gradient(Replica& replica) const {
    Result result;
    Buffer gradient(layout.total);
    gradient.fill(0);
    result.stats = replica.gradient(parameters.data(), batch, gradient.data());
    result.gradient.assign(gradient.data(), gradient.data() + gradient.size());
    return result;
  }
};

/// ||a - b|| / ||b||; NaN for NaN.
inline double distance(const std::vector<float>& a,
                       const std::vector<float>& b) {
  double off = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = double{a[i]} - double{b[i]};
    off += d * d;
    size += double{b[i]} * double{b[i]};
  }
  return std::sqrt(off / size);
}

inline const DeviceId first_gpu{DeviceId::Kind::cuda, 0};

/// Tensor cores take its heads in bfloat16, two blocks at least.
inline std::string transformer() {
  return on_stand_in() ? "transformer:L1-H4-D128-T72"
                       : "transformer:L2-H4-D128-T96";
}

inline std::vector<std::string> models() {
  std::vector<std::string> names = {"mlp:784-64-10", "cnn",  "resnet8",
                                    transformer(),   "dlrm", "wide_deep"};
  if (on_stand_in())
    names.insert(names.end(), {"llama:L1-H4-D128-T40"});
  else
    names.insert(names.end(), {"transformer:L1-H2-D128-T50-P0.1",
                               "llama:L2-H4-D128-T96", "logreg"});
  return names;
}

} // namespace troupe::test

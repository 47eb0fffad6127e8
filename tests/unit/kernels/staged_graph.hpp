#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/stages.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace troupe::test {

struct StagedModel {
  std::string text;
  SampleShape sample;
};

/// A micro-batch, drawn, and what the whole graph makes of it.
struct StagedLeaf {
  StagedLeaf(const Graph& graph, uint32_t rows, uint32_t seed)
    : memory(graph, rows) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> unit(-1, 1);
    for (size_t i = 0; i < rows * graph.features(); ++i)
      memory.features()[i] = unit(random);
    for (size_t i = 0; i < rows * graph.ids(); ++i)
      memory.ids()[i] =
        static_cast<int32_t>(random() % graph.sample.vocabulary);
    for (size_t i = 0; i < rows * graph.labels(); ++i)
      memory.labels()[i] = static_cast<int32_t>(random() % graph.classes());
    batch = memory.batch(rows, seed);
  }

  BatchMemory memory;
  Batch batch;
  LeafStats stats;
  std::vector<float> gradient;
};

/// Memory that nobody has written to.
inline std::vector<float> unwritten(uint64_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

class StagedGraph {
public:
  explicit StagedGraph(const StagedModel& model, DeviceId device = {},
                       Precision precision = Precision::float32)
    : graph(make_graph(model.text, model.sample)),
      device_(device),
      layout_(graph),
      parameters_(layout_.total, 0.0f) {
    std::mt19937 random(2);
    std::uniform_real_distribution<float> unit(-0.1f, 0.1f);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
      auto* at = parameters_.data() + layout_.offsets[i];
      initialize(graph, 3, i, 0, at, graph.parameters[i].size());
      for (size_t k = 0; k < graph.parameters[i].size(); ++k)
        at[k] += unit(random);
    }
    options_.precision = precision;
    options_.max_rows = max_rows;
    const auto whole = make_replica(graph, device, max_rows, precision);
    for (uint32_t rows : {4, 3, 4}) {
      auto& leaf = leaves_.emplace_back(
        graph, rows, static_cast<uint32_t>(leaves_.size()) + 7);
      leaf.gradient = unwritten(layout_.total);
      leaf.stats = whole->gradient(parameters_.data(), leaf.batch,
                                   leaf.gradient.data());
    }
  }

  /// Cuts the graph before the operators `begins`, the first of them 0, and
  /// takes all micro-batches forward, then backward, twice: whole, and in
  /// halves, with activations that are kept or computed again, all or some.
  void check(const std::vector<uint32_t>& begins) {
    auto options = options_;
    options.in_flight = static_cast<uint32_t>(leaves_.size());
    for (bool recompute : {true, false}) {
      options.recompute = recompute;
      check_both(begins, options);
    }
    for (const auto& layers : some_layers()) {
      options.layers = layers;
      check_both(begins, options);
    }
  }

  /// The same once, one micro-batch at a time, by stages that keep no
  /// parameters. One that has gone forward alone is given up before.
  void check_one_by_one(const std::vector<uint32_t>& begins) {
    auto options = options_;
    options.keeps_parameters = false;
    auto stages = cut(begins, options);
    for (uint32_t i = 0; i < leaves_.size(); ++i) {
      std::vector<std::vector<float>> parameters;
      for (const auto& stage : stages)
        parameters.push_back(of_stage(*stage));
      if (i == 0) {
        forward(stages, parameters, 1, 0);
        for (const auto& stage : stages)
          stage->abandon();
      }
      forward(stages, parameters, i, 0);
      parameters.clear();
      backward(stages, i, 0);
    }
  }

  const Graph graph;

private:
  /// Each operator a layer; three, with one between them that is of none; every
  /// other one of the same layer; all in one.
  std::vector<std::vector<uint32_t>> some_layers() const {
    std::vector<std::vector<uint32_t>> out(4);
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      out[0].push_back(op + 1);
      out[1].push_back(op % 4 == 3 ? 0 : op / 4 + 1);
      out[2].push_back(op % 2);
      out[3].push_back(1);
    }
    return out;
  }

  void check_both(const std::vector<uint32_t>& begins, StageOptions options) {
    options.in_halves = false;
    options.activations = 1;
    check(begins, options);
    options.in_halves = true;
    options.activations = 2;
    check(begins, options);
  }

  void check(const std::vector<uint32_t>& begins, const StageOptions& options) {
    const auto stages = cut(begins, options);
    std::vector<std::vector<float>> parameters;
    for (const auto& stage : stages)
      parameters.push_back(of_stage(*stage));
    for (int round = 0; round < 2; ++round) {
      for (uint32_t i = 0; i < leaves_.size(); ++i)
        forward(stages, parameters, i, i);
      if (!options.in_halves) {
        for (auto& values : parameters) // they lie elsewhere from here on
          std::fill(values.begin(), values.end(),
                    std::numeric_limits<float>::quiet_NaN());
        for (uint32_t i : {1u, 0u, 2u})
          backward(stages, i, i);
        for (size_t k = 0; k < stages.size(); ++k)
          parameters[k] = of_stage(*stages[k]);
        continue;
      }
      // Weights come later than the inputs of other micro-batches.
      backward_inputs(stages, 1);
      backward_inputs(stages, 0);
      backward_weights(stages, 1);
      backward_inputs(stages, 2);
      backward_weights(stages, 2);
      backward_weights(stages, 0);
    }
  }

  static constexpr uint32_t max_rows = 4;

  StageReplicas cut(const std::vector<uint32_t>& begins,
                    const StageOptions& options) const {
    std::vector<GraphPart> parts;
    for (size_t k = 0; k < begins.size(); ++k) {
      const auto end = k + 1 < begins.size()
                         ? begins[k + 1]
                         : static_cast<uint32_t>(graph.ops.size());
      parts.push_back(part_of(graph, {begins[k], end}));
    }
    return make_stage_replicas(
      graph, parts, device_, std::vector<StageOptions>(parts.size(), options));
  }

  std::vector<float> of_stage(const StageReplica& stage) const {
    auto result = unwritten(stage.layout().total);
    for (auto i : stage.part().parameters)
      std::copy_n(parameters_.data() + layout_.offsets[i],
                  graph.parameters[i].size(),
                  result.data() + stage.layout().offsets[i]);
    return result;
  }

  void forward(const StageReplicas& stages,
               const std::vector<std::vector<float>>& parameters, uint32_t i,
               uint32_t slot) {
    std::vector<float> in;
    LeafStats stats;
    for (size_t k = 0; k < stages.size(); ++k) {
      const auto rows = leaves_[i].batch.rows;
      auto out =
        unwritten(forward_elements(graph, stages[k]->part().out, rows));
      stats = stages[k]->forward(slot, parameters[k].data(), leaves_[i].batch,
                                 in.data(), out.data());
      if (k + 1 < stages.size())
        BOOST_TEST(stats.loss_sum == 0);
      in = std::move(out);
    }
    BOOST_TEST(stats.loss_sum == leaves_[i].stats.loss_sum);
    BOOST_TEST(stats.correct == leaves_[i].stats.correct);
  }

  void backward(const StageReplicas& stages, uint32_t i, uint32_t slot) {
    std::vector<float> from_next;
    for (size_t k = stages.size(); k-- > 0;) {
      auto gradient = unwritten(stages[k]->layout().total);
      auto to = unwritten(elements_back(*stages[k], i));
      const auto moved = of_stage(*stages[k]);
      stages[k]->move_parameters(slot, moved.data());
      stages[k]->backward(slot, from_next.data(), gradient.data(), to.data());
      compare(stages, k, i, gradient);
      from_next = std::move(to);
    }
  }

  void backward_inputs(const StageReplicas& stages, uint32_t i) {
    std::vector<float> from_next;
    for (size_t k = stages.size(); k-- > 0;) {
      auto to = unwritten(elements_back(*stages[k], i));
      stages[k]->backward_inputs(i, from_next.data(), to.data());
      from_next = std::move(to);
    }
  }

  void backward_weights(const StageReplicas& stages, uint32_t i) {
    for (size_t k = 0; k < stages.size(); ++k) {
      auto gradient = unwritten(stages[k]->layout().total);
      stages[k]->backward_weights(i, gradient.data());
      compare(stages, k, i, gradient);
    }
  }

  uint64_t elements_back(const StageReplica& stage, uint32_t i) const {
    return backward_elements(graph, stage.part().in, leaves_[i].batch.rows);
  }

  /// With the whole graph's; each parameter is one stage's.
  void compare(const StageReplicas& stages, size_t k, uint32_t i,
               const std::vector<float>& gradient) const {
    for (auto parameter : stages[k]->part().kept) {
      BOOST_TEST(
        std::memcmp(gradient.data() + stages[k]->layout().offsets[parameter],
                    leaves_[i].gradient.data() + layout_.offsets[parameter],
                    graph.parameters[parameter].size() * sizeof(float))
          == 0,
        graph.parameters[parameter].name << " of stage " << k);
    }
    if (k > 0)
      return;
    std::vector<int> kept(graph.parameters.size(), 0);
    for (const auto& stage : stages)
      for (auto parameter : stage->part().kept)
        ++kept[parameter];
    BOOST_TEST(kept == std::vector<int>(kept.size(), 1),
               boost::test_tools::per_element());
  }

  DeviceId device_;
  StageOptions options_;
  Layout layout_;
  std::vector<float> parameters_;
  std::vector<StagedLeaf> leaves_;
};

} // namespace troupe::test

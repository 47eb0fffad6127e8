#include "kernels/base/error.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/stages.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(stages_test)

namespace {

SampleShape stage_images() {
  SampleShape sample;
  sample.features = {12, 12, 3};
  sample.classes = 5;
  return sample;
}

SampleShape stage_text() {
  SampleShape sample;
  sample.vocabulary = 19;
  sample.label = LabelKind::tokens;
  return sample;
}

SampleShape stage_clicks() {
  SampleShape sample;
  sample.features = {5};
  sample.ids = 4;
  sample.vocabulary = 23;
  sample.label = LabelKind::binary;
  return sample;
}

struct StagedModel {
  const char* text;
  SampleShape sample;
};

std::vector<StagedModel> staged_models() {
  return {{"mlp:20-24-17-16-5", {}},
          {"cnn", stage_images()},
          {"resnet8", stage_images()},
          {"transformer:L2-H2-D16-T8-P0.1", stage_text()},
          {"llama:L2-H2-K1-D16-T8-P0.1", stage_text()},
          {"dlrm", stage_clicks()},
          {"wide_deep", stage_clicks()}};
}

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
std::vector<float> unwritten(uint64_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

class StagedGraph {
public:
  explicit StagedGraph(const StagedModel& model)
    : graph(make_graph(model.text, model.sample)),
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
    const auto whole = make_replica(graph, {}, max_rows);
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
    StageOptions options;
    options.max_rows = max_rows;
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
    std::vector<std::unique_ptr<StageReplica>> stages;
    std::vector<std::vector<float>> parameters;
    for (size_t k = 0; k < begins.size(); ++k) {
      const auto end = k + 1 < begins.size()
                         ? begins[k + 1]
                         : static_cast<uint32_t>(graph.ops.size());
      stages.push_back(make_stage_replica(
        graph, part_of(graph, {begins[k], end}), {}, options));
      parameters.push_back(of_stage(*stages.back()));
    }
    for (int round = 0; round < 2; ++round) {
      for (uint32_t i = 0; i < leaves_.size(); ++i)
        forward(stages, parameters, i);
      if (!options.in_halves) {
        for (auto& values : parameters) // they lie elsewhere from here on
          std::fill(values.begin(), values.end(),
                    std::numeric_limits<float>::quiet_NaN());
        for (uint32_t i : {1u, 0u, 2u})
          backward(stages, i);
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
  using Stages = std::vector<std::unique_ptr<StageReplica>>;

  std::vector<float> of_stage(const StageReplica& stage) const {
    auto result = unwritten(stage.layout().total);
    for (auto i : stage.part().parameters)
      std::copy_n(parameters_.data() + layout_.offsets[i],
                  graph.parameters[i].size(),
                  result.data() + stage.layout().offsets[i]);
    return result;
  }

  void forward(const Stages& stages,
               const std::vector<std::vector<float>>& parameters, uint32_t i) {
    std::vector<float> in;
    LeafStats stats;
    for (size_t k = 0; k < stages.size(); ++k) {
      const auto rows = leaves_[i].batch.rows;
      auto out =
        unwritten(forward_elements(graph, stages[k]->part().out, rows));
      stats = stages[k]->forward(i, parameters[k].data(), leaves_[i].batch,
                                 in.data(), out.data());
      if (k + 1 < stages.size())
        BOOST_TEST(stats.loss_sum == 0);
      in = std::move(out);
    }
    BOOST_TEST(stats.loss_sum == leaves_[i].stats.loss_sum);
    BOOST_TEST(stats.correct == leaves_[i].stats.correct);
  }

  void backward(const Stages& stages, uint32_t i) {
    std::vector<float> from_next;
    for (size_t k = stages.size(); k-- > 0;) {
      auto gradient = unwritten(stages[k]->layout().total);
      auto to = unwritten(elements_back(*stages[k], i));
      const auto moved = of_stage(*stages[k]);
      stages[k]->move_parameters(i, moved.data());
      stages[k]->backward(i, from_next.data(), gradient.data(), to.data());
      compare(stages, k, i, gradient);
      from_next = std::move(to);
    }
  }

  void backward_inputs(const Stages& stages, uint32_t i) {
    std::vector<float> from_next;
    for (size_t k = stages.size(); k-- > 0;) {
      auto to = unwritten(elements_back(*stages[k], i));
      stages[k]->backward_inputs(i, from_next.data(), to.data());
      from_next = std::move(to);
    }
  }

  void backward_weights(const Stages& stages, uint32_t i) {
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
  void compare(const Stages& stages, size_t k, uint32_t i,
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

  Layout layout_;
  std::vector<float> parameters_;
  std::vector<StagedLeaf> leaves_;
};

/// add(dense_0, dense_2), with a stage between them; the weight of dense_0 is
/// that of dense_2 and of dense_3, too.
const char* skipping_model = R"({
  "sample": {"features": [6], "classes": 6},
  "operators": [
    {"kind": "dense", "name": "a", "inputs": ["features"], "units": 6},
    {"kind": "dense", "name": "b", "units": 6, "activation": "relu"},
    {"kind": "dense", "name": "c", "units": 6, "weight": "a/weight"},
    {"kind": "add", "name": "d", "inputs": ["a", "c"]},
    {"kind": "dense", "name": "e", "units": 6, "weight": "a/weight"},
    {"kind": "multiply", "name": "f", "inputs": ["e", "a"]},
    {"kind": "softmax_cross_entropy", "name": "loss"}
  ]})";

} // namespace

BOOST_AUTO_TEST_CASE(two_stages_give_the_bits_of_one_wherever_they_are_cut) {
  for (const auto& model : staged_models())
    BOOST_TEST_CONTEXT(model.text) {
      StagedGraph staged{model};
      const auto ops = static_cast<uint32_t>(staged.graph.ops.size());
      for (uint32_t cut = 1; cut < ops; ++cut)
        BOOST_TEST_CONTEXT("cut before " << staged.graph.ops[cut].name)
      staged.check({0, cut});
    }
}

BOOST_AUTO_TEST_CASE(three_and_four_stages_give_the_bits_of_one) {
  for (const auto& model : staged_models())
    BOOST_TEST_CONTEXT(model.text) {
      StagedGraph staged{model};
      const auto ops = static_cast<uint32_t>(staged.graph.ops.size());
      for (uint32_t stages : {3, 4}) {
        std::vector<uint32_t> begins;
        for (uint32_t k = 0; k < stages; ++k)
          begins.push_back(k * ops / stages);
        staged.check(begins);
      }
    }
}

BOOST_AUTO_TEST_CASE(what_skips_a_stage_passes_it_by_unchanged) {
  StagedGraph staged{{skipping_model, {}}};
  for (uint32_t a = 1; a < 7; ++a)
    for (uint32_t b = a + 1; b < 7; ++b) {
      staged.check({0, a, b});
      for (uint32_t c = b + 1; c < 7; ++c)
        staged.check({0, a, b, c});
    }
}

BOOST_AUTO_TEST_CASE(what_crosses_a_cut_is_known_from_the_graph) {
  const auto graph = make_graph("transformer:L1-H2-D16-T8", stage_text());
  // tokens, positions, norm_1, …, and the head, whose weight is the table.
  const auto crossing = crossing_before(graph, 3);
  std::vector<std::string> names;
  for (auto value : crossing.values)
    names.push_back(graph.values[value].name);
  BOOST_TEST(names == (std::vector<std::string>{"positions", "block_0.norm_1"}),
             boost::test_tools::per_element());
  BOOST_TEST(crossing.gradients == crossing.values,
             boost::test_tools::per_element());
  BOOST_REQUIRE(crossing.parameters.size() == 1u);
  BOOST_TEST(graph.parameters[crossing.parameters[0]].name == "tokens/table");
  BOOST_TEST(forward_elements(graph, crossing, 2) == 2u * 2 * 8 * 16);
  BOOST_TEST(backward_elements(graph, crossing, 2)
             == 2u * 2 * 8 * 16 + 19 * 16);
  const auto head = part_of(graph,
                            {3, static_cast<uint32_t>(graph.ops.size())});
  BOOST_TEST((head.out == Crossing{}));
  BOOST_TEST(head.kept.size() + 1 == head.parameters.size());
}

BOOST_AUTO_TEST_CASE(a_part_has_memory_for_its_own_layers_alone) {
  const auto graph = make_graph("mlp:40-300-300-300-5");
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto bytes = [&](OpRange range) {
    return make_stage_replica(graph, part_of(graph, range), {},
                              {.max_rows = 64})
      ->memory_bytes();
  };
  BOOST_TEST(bytes({0, 1}) < bytes({0, ops}));
  BOOST_TEST(bytes({ops - 2, ops}) < bytes({0, ops}));
  const Layout first{graph, part_of(graph, {0, 1}).parameters};
  BOOST_TEST(first.total == 40u * 300 + 304);
  BOOST_TEST(first.offsets[2] == Layout::nowhere);
}

BOOST_AUTO_TEST_CASE(inputs_are_kept_where_activations_are_computed_again) {
  const auto graph = make_graph("transformer:L2-H2-D16-T8", stage_text());
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto part = part_of(graph, {ops / 2, ops});
  const auto bytes = [&](StageOptions options) {
    options.max_rows = 8;
    const auto told = stage_memory_bytes(graph, part, options);
    BOOST_TEST(make_stage_replica(graph, part, {}, options)->memory_bytes()
               == told);
    return told;
  };
  const auto one = bytes({});
  const auto kept = forward_elements(graph, part.in, 8) * sizeof(float);
  BOOST_TEST(bytes({.in_flight = 5}) == 5 * one);
  BOOST_TEST(bytes({.in_flight = 5, .recompute = true}) == one + 5 * kept);
  BOOST_TEST(bytes({.in_flight = 5, .recompute = true}) < 2 * one);
  const auto halved = bytes({.in_halves = true});
  BOOST_TEST(halved > one);
  BOOST_TEST(
    bytes(
      {.in_flight = 5, .in_halves = true, .recompute = true, .activations = 2})
    == 2 * halved + 5 * kept);
}

BOOST_AUTO_TEST_CASE(
  what_comes_to_layers_is_kept_where_they_are_computed_again) {
  const auto graph = make_graph("transformer:L4-H2-D16-T8", stage_text());
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto part = part_of(graph, {0, ops});
  std::vector<uint32_t> blocks(ops, 0);
  std::vector<uint32_t> attentions(ops, 0);
  for (uint32_t op = 0; op < ops; ++op) {
    const auto& name = graph.ops[op].name;
    if (name.starts_with("block_"))
      blocks[op] = static_cast<uint32_t>(name[6] - '0') + 1;
    if (name.ends_with("attention"))
      attentions[op] = blocks[op];
  }
  constexpr uint32_t rows = 8;
  const auto bytes = [&](StageOptions options) {
    options.max_rows = rows;
    const auto told = stage_memory_bytes(graph, part, options);
    BOOST_TEST(make_stage_replica(graph, part, {}, options)->memory_bytes()
               == told);
    return told;
  };
  const auto all = bytes({.in_flight = 5});
  const auto one = bytes({.layers = blocks});
  const auto full = bytes({.in_flight = 5, .recompute = true});
  const auto some = bytes({.in_flight = 5, .layers = blocks});
  // A micro-batch has what comes to each block, what comes to the head and goes
  // to the loss, and ids of its norm.
  const auto wide = rows * 8 * 16 * sizeof(float);
  const auto held = (some - one) / 4;
  BOOST_TEST(held >= 5 * wide);
  BOOST_TEST(held < 5 * wide + rows * 8 * 19 * sizeof(float) + 2 * wide);
  BOOST_TEST(one < bytes({}));
  BOOST_TEST(one < full);
  BOOST_TEST(some < all / 2);
  const auto few = bytes({.in_flight = 5, .layers = attentions});
  BOOST_TEST(some < few);
  BOOST_TEST(few < all);
  BOOST_TEST(bytes({.in_flight = 5, .layers = std::vector<uint32_t>(ops, 0)})
             <= all);
}

BOOST_AUTO_TEST_CASE(a_device_without_stages_is_refused) {
  const auto graph = make_graph("mlp:4-3");
  BOOST_CHECK_THROW(make_stage_replica(graph, part_of(graph, {0, 1}),
                                       {DeviceId::Kind::cuda, 0}, {}),
                    InputError);
}

BOOST_AUTO_TEST_SUITE_END()

#include "kernels/base/error.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/stages.hpp"
#include "tests/unit/kernels/staged_graph.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using troupe::test::StagedGraph;
using troupe::test::StagedModel;

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

std::vector<StagedModel> staged_models() {
  return {{"mlp:20-24-17-16-5", {}},
          {"cnn", stage_images()},
          {"resnet8", stage_images()},
          {"transformer:L2-H2-D16-T8-P0.1", stage_text()},
          {"llama:L2-H2-K1-D16-T8-P0.1", stage_text()},
          {"dlrm", stage_clicks()},
          {"wide_deep", stage_clicks()}};
}

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
                                       pjrt_device("libtpu.so", 0), {}),
                    InputError);
}

BOOST_AUTO_TEST_SUITE_END()

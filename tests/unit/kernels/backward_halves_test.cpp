#include "kernels/engine/backward_halves.hpp"
#include "kernels/engine/device.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;

BOOST_AUTO_TEST_SUITE(backward_halves_test)

namespace {

/// Dense operators that share weights, and a norm.
const char* shared_weights_model = R"({
  "sample": {"features": [6], "classes": 6},
  "operators": [
    {"kind": "dense", "name": "a", "inputs": ["features"], "units": 6},
    {"kind": "dense", "name": "b", "units": 6},
    {"kind": "layer_norm", "name": "n"},
    {"kind": "dense", "name": "c", "units": 6, "weight": "a/weight"},
    {"kind": "dense", "name": "d", "units": 6, "weight": "b/weight"},
    {"kind": "softmax_cross_entropy", "name": "loss"}
  ]})";

struct HalvedModel {
  Graph graph = make_graph(shared_weights_model);

  BackwardHalves of(OpRange ops) const {
    auto device = make_device({}, Precision::float32);
    std::vector<Needs> needs(graph.ops.size());
    for (auto i = ops.begin; i < ops.end; ++i)
      needs[i] = device->make_operator(graph, i, 1)->needs();
    return halve_backward(graph, part_of(graph, ops), needs);
  }

  /// Names of operators with halves.
  std::string split(OpRange ops) const {
    std::string names;
    const auto halves = of(ops);
    for (size_t i = 0; i < graph.ops.size(); ++i)
      if (halves.splits[i])
        names += graph.ops[i].name + ' ';
    return names;
  }

  std::string early(OpRange ops) const {
    std::string names;
    for (auto parameter : of(ops).early)
      names += graph.parameters[parameter].name + ' ';
    return names;
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(products_come_in_halves_and_norms_whole) {
  const HalvedModel model;
  BOOST_TEST(model.split({0, 6}) == "a b c d ");
  BOOST_TEST(model.early({0, 6}) == "n/scale n/shift ");
}

BOOST_AUTO_TEST_CASE(
  what_the_stage_before_adds_to_is_sent_with_the_first_half) {
  const HalvedModel model;
  // c shares its weight with a, d with b, both of the stage before.
  BOOST_TEST(model.split({3, 6}) == "");
  BOOST_TEST(model.early({3, 6}) == "a/weight b/weight c/bias d/bias ");
  // d shares its weight with the stage before; c has its own.
  BOOST_TEST(model.split({4, 6}) == "");
  BOOST_TEST(model.split({1, 6}) == "b d ");
}

BOOST_AUTO_TEST_CASE(what_the_stage_after_gives_is_kept_for_the_second_half) {
  const HalvedModel model;
  BOOST_TEST(model.split({0, 3}) == "a b ");
  BOOST_TEST(model.early({0, 3}) == "a/weight b/weight n/scale n/shift ");
}

BOOST_AUTO_TEST_CASE(who_shares_with_an_operator_without_halves_has_none) {
  const HalvedModel model;
  const auto ops = static_cast<uint32_t>(model.graph.ops.size());
  std::vector<Needs> needs(ops);
  // a, c share one weight, b, d another; only d does all at once.
  for (size_t i : {0, 1, 3})
    needs[i].splits = true;
  const auto halves = halve_backward(model.graph,
                                     part_of(model.graph, {0, ops}), needs);
  BOOST_TEST(halves.splits == (std::vector<uint8_t>{1, 0, 0, 1, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

#include "actors/job/sharded_parts.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sharded_parts_test)

namespace {

uint64_t parameters_in(const Graph& graph, OpRange ops) {
  uint64_t sum = 0;
  for (auto op = ops.begin; op < ops.end; ++op)
    for (auto parameter : graph.ops[op].parameters)
      sum += graph.parameters[parameter].size();
  return sum;
}

} // namespace

BOOST_AUTO_TEST_CASE(parts_are_the_model_and_none_has_more_than_an_operator) {
  for (const auto* model :
       {"mlp:784-512-256-10", "cnn", "transformer:L2-H2-D32-T32", "dlrm",
        "logreg", "resnet8"}) {
    const auto graph = make_graph(model);
    const auto ops = static_cast<uint32_t>(graph.ops.size());
    uint64_t most = 0;
    for (uint32_t op = 0; op < ops; ++op)
      most = std::max(most, parameters_in(graph, {op, op + 1}));
    uint32_t next = 0;
    std::vector<uint8_t> kept(graph.parameters.size(), 0);
    for (auto part : sharded_parts(graph)) {
      BOOST_TEST(part.begin == next, model);
      BOOST_TEST(part.end > part.begin, model);
      BOOST_TEST(parameters_in(graph, part) <= most, model);
      for (auto parameter : part_of(graph, part).kept)
        BOOST_TEST(kept[parameter]++ == 0, model);
      next = part.end;
    }
    BOOST_TEST(next == ops, model);
    // Each gradient leaves with one part.
    BOOST_TEST(std::ranges::count(kept, 1) == std::ssize(kept), model);
  }
}

BOOST_AUTO_TEST_CASE(a_layer_is_a_part_where_layers_are_alike) {
  const auto graph = make_graph("mlp:64-64-64-64-64");
  BOOST_TEST(sharded_parts(graph).size() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()

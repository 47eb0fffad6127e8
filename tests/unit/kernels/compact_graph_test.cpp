#include "kernels/graph/models.hpp"
#include "kernels/table/compact_graph.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(compact_graph_test)

BOOST_AUTO_TEST_CASE(tables_that_only_ids_read_can_be_sparse) {
  for (auto [model, tables] : {std::pair{"dlrm", 1u},
                               {"wide_deep", 2u},
                               {"logreg", 1u},
                               {"cnn", 0u}}) {
    const auto graph = make_graph(model);
    const auto found = sparse_parameters(graph);
    BOOST_TEST(found.size() == tables, model);
    for (auto table : found)
      BOOST_TEST(graph.parameters[table].by_rows);
  }
}

BOOST_AUTO_TEST_CASE(a_table_that_a_dense_operator_reads_too_stays_dense) {
  BOOST_TEST(
    sparse_parameters(make_graph("transformer:L2-H2-D16-T16")).empty());
}

BOOST_AUTO_TEST_CASE(
  a_compact_graph_has_small_tables_and_nothing_else_changes) {
  const auto graph = make_graph("wide_deep");
  const auto tables = sparse_parameters(graph);
  const auto compact = compact_graph(graph, tables, 100);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const bool table = std::find(tables.begin(), tables.end(), i)
                       != tables.end();
    BOOST_TEST(compact.parameters[i].shape[0]
               == (table ? 100u : graph.parameters[i].shape[0]));
  }
  const auto whole = compact_graph(graph, tables, 1 << 30);
  BOOST_TEST(whole.parameter_count() == graph.parameter_count());
}

BOOST_AUTO_TEST_SUITE_END()

#include "actors/compute/step_rows.hpp"
#include "actors/job/shard_tables.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_rows_test)

namespace {

JobOptions options_of(uint32_t batch) {
  JobOptions options;
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=3000";
  options.strategy = Strategy::parameter_server;
  options.devices = {"cpu:0"};
  options.global_batch = batch;
  options.rule.kind = OptimizerKind::adagrad;
  return options;
}

struct Case {
  Case()
    : data(load_dataset(parse_data_spec(options_of(64).data))),
      job(options_of(64), data) {}

  std::set<int32_t> ids_of(uint64_t step, RankRange node) {
    std::set<int32_t> ids;
    std::vector<uint64_t> rows;
    for (auto rank = node.lo; rank < node.hi; ++rank) {
      job.sampling.indices(step, rank, rows);
      for (auto row : rows)
        for (uint32_t i = 0; i < data.shape.ids; ++i)
          if (auto id = data.ids[row * data.shape.ids + i]; id >= 0)
            ids.insert(id);
    }
    return ids;
  }

  StepRows rows(uint64_t step, const std::vector<RankRange>& nodes) {
    return {job, data, nodes, samples_of(job.sampling, step, nodes)};
  }

  Dataset data;
  Job job;
};

std::vector<uint64_t> ids_in(const IdPages& pages) {
  std::vector<uint64_t> ids;
  for_each_id(pages, [&](uint64_t id) { ids.push_back(id); });
  return ids;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_worker_asks_for_the_ids_of_its_samples_and_no_others) {
  Case x;
  const std::vector<RankRange> nodes{{1, 2}, {2, 4}};
  const auto rows = x.rows(3, nodes);
  const auto expected = x.ids_of(3, {1, 4});
  BOOST_TEST(rows.count() == expected.size());
  std::set<int32_t> asked;
  size_t parts = 0;
  for (const auto& slice : x.job.plan.slices)
    if (slice.sparse()) {
      ++parts;
      RowPull pull;
      pull.ids = rows.wanted(slice);
      const auto pages = wanted_rows(x.job, slice, pull);
      BOOST_TEST_REQUIRE(pages.has_value());
      for (const auto& page : *pages)
        BOOST_TEST(partition_of(page.page, slice.partitions)
                   == slice.partition);
      for (auto id : ids_in(*pages))
        asked.insert(static_cast<int32_t>(id));
    }
  BOOST_TEST(parts > 1u);
  BOOST_TEST(asked == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_worker_asks_for_the_ids_of_its_windows_of_text) {
  // Symptom: a model of text whose table of tokens only ids read ended every
  // worker of a parameter server, which took the step to have no ids.
  auto options = options_of(8);
  options.model = R"({"name": "own", "sample": {"ids": 6, "vocabulary": 27,
    "label": "tokens"}, "operators": [{"kind": "embedding", "width": 4},
    {"kind": "dense", "units": "vocabulary"},
    {"kind": "softmax_cross_entropy"}]})";
  options.data = "synthetic:text?samples=300";
  auto data = load_dataset(parse_data_spec(options.data));
  cut_windows(data, make_graph(options.model, data.shape), false);
  Job job{options, data};
  BOOST_TEST_REQUIRE(job.tables.size() == 1u);
  const std::vector<RankRange> nodes{{0, 1}, {1, 4}};
  const auto samples = samples_of(job.sampling, 2, nodes);
  const StepRows rows{job, data, nodes, samples};
  std::set<int32_t> expected;
  for (const auto& node : samples)
    for (auto row : node)
      for (size_t i = 0; i < 6; ++i)
        expected.insert(data.tokens[row + i]);
  BOOST_TEST(rows.count() == expected.size());
  std::set<int32_t> places;
  for (auto id : expected) {
    rows.renumber(&id, 1);
    places.insert(id);
  }
  BOOST_TEST(places.size() == expected.size());
}

BOOST_AUTO_TEST_CASE(
  pulled_rows_lie_where_renumbered_ids_say_and_go_back_pushed) {
  Case x;
  const std::vector<RankRange> nodes{{0, 1}, {2, 4}};
  const auto rows = x.rows(0, nodes);
  auto parameters = std::make_shared<SumBuffer>(x.job.layout.total, nullptr);
  std::fill_n(parameters->data(), parameters->size(), -1.0f);
  const auto width = 16;
  for (const auto& slice : x.job.plan.slices) {
    if (!slice.sparse())
      continue;
    RowPull pull;
    pull.ids = rows.wanted(slice);
    std::vector<float> values;
    for (auto id : ids_in(*wanted_rows(x.job, slice, pull)))
      values.insert(values.end(), width, static_cast<float>(id));
    BOOST_TEST(!rows.put(slice, TensorView::copy(std::vector<float>(3)),
                         parameters->data()));
    BOOST_TEST(rows.put(slice, TensorView::copy(values), parameters->data()));
  }
  const auto* table = parameters->data()
                      + x.job.layout.offsets[x.job.tables.front()];
  for (auto id : x.ids_of(0, {2, 4})) {
    int32_t place[] = {id, -1};
    rows.renumber(place, 2);
    BOOST_TEST(table[place[0] * width] == static_cast<float>(id));
    BOOST_TEST(place[1] == -1);
  }
  for (const auto& node : nodes) {
    std::set<int32_t> pushed;
    for (const auto& slice : x.job.plan.slices)
      if (slice.sparse()) {
        const auto values = rows.pushed(slice, {node, parameters});
        const auto back = read_payload(values.span(), width).value();
        const auto* row = back.values;
        for (auto id : ids_in(back.pages)) {
          BOOST_TEST(*row == static_cast<float>(id));
          row += width;
          pushed.insert(static_cast<int32_t>(id));
        }
      }
    BOOST_TEST(pushed == x.ids_of(0, node), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_empty_node_pushes_no_rows) {
  Case x;
  const auto rows = x.rows(0, {{0, 4}});
  for (const auto& slice : x.job.plan.slices)
    if (slice.sparse())
      BOOST_TEST(rows.pushed(slice, {{0, 4}, nullptr}).size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

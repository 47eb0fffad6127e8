#include "actors/compute/evaluated_rows.hpp"
#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(evaluated_rows_test)

BOOST_AUTO_TEST_CASE(
  an_evaluation_reads_the_rows_of_its_samples_and_no_others) {
  JobOptions options;
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=60&buckets=3000";
  options.strategy = Strategy::parameter_server;
  options.devices = {"cpu:0"};
  options.global_batch = 20;
  options.rule.kind = OptimizerKind::adagrad;
  const auto data = load_dataset(parse_data_spec(options.data));
  const Job job{options, data};
  const EvaluatedRows rows{job, data};
  std::set<int32_t> ids{data.ids.begin(), data.ids.end()};
  ids.erase(-1);
  BOOST_TEST(rows.count() == ids.size());
  const auto variable = job.tables.front();
  const auto& shape = job.graph.parameters[variable].shape;
  const auto width = elements(shape) / shape.front();
  BOOST_TEST(rows.graph().parameters[variable].shape[0] == ids.size());
  std::vector<float> table(rows.count() * width);
  rows.initialise(variable, table.data());
  const auto row_of = [&](int32_t id) {
    int32_t number[] = {id, -1};
    rows.renumber(number, 2);
    BOOST_TEST(number[1] == -1);
    const auto* row = table.data() + static_cast<size_t>(number[0]) * width;
    return std::vector<float>(row, row + width);
  };
  for (auto id : ids) {
    std::vector<float> expected(width);
    initialize(job.graph, options.seed, variable,
               static_cast<uint64_t>(id) * width, expected.data(), width);
    BOOST_TEST_REQUIRE(row_of(id) == expected,
                       boost::test_tools::per_element());
  }
  std::set<int32_t> asked;
  for (const auto& slice : job.plan.slices) {
    if (slice.variable != variable)
      continue;
    RowPull pull;
    pull.ids = rows.wanted(slice).value();
    const auto wanted = wanted_rows(job, slice, pull);
    BOOST_TEST_REQUIRE(wanted.has_value());
    for_each_id(*wanted,
                [&](uint64_t id) { asked.insert(static_cast<int32_t>(id)); });
    // All rows of the part, each with its id as values; most are left out.
    const auto pages = all_rows(job, slice);
    const auto copied = row_copy_width(job, slice);
    RowWords chunk{encode_pages(pages), count_ids(pages), copied};
    auto* to = chunk.values();
    for_each_id(pages, [&](uint64_t id) {
      to = std::fill_n(to, copied, static_cast<float>(id));
    });
    rows.put(slice, std::move(chunk).view(), table.data());
  }
  BOOST_TEST(asked == ids, boost::test_tools::per_element());
  for (auto id : ids)
    BOOST_TEST_REQUIRE(row_of(id).back() == static_cast<float>(id));
}

BOOST_AUTO_TEST_SUITE_END()

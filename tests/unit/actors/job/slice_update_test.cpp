#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/slice_update.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(slice_update_test)

namespace {

std::shared_ptr<const Job> clipped_job() {
  JobOptions options;
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=3000";
  options.strategy = Strategy::parameter_server;
  options.devices = {"cpu:0"};
  options.optimizer = "lamb";
  options.rule.kind = OptimizerKind::lamb;
  options.clip_norm = 0.5;
  return std::make_shared<const Job>(
    options, load_dataset(parse_data_spec(options.data)));
}

/// Some gradient of each slice: rows 0, 70, 140, ... of tables.
struct Gradient {
  explicit Gradient(const Job& job) {
    for (const auto& slice : job.plan.slices) {
      auto& own = values.emplace_back(slice.count);
      if (slice.sparse()) {
        const auto width = row_width(job, slice);
        for (uint64_t id = 0; id < 3000; id += 70)
          if (partition_of(id / page_ids, slice.partitions) == slice.partition)
            own.resize(own.size() + width);
      }
      for (size_t i = 0; i < own.size(); ++i)
        own[i] = std::sin(static_cast<float>(slice.id * 31 + i));
      for (auto x : own)
        squares += double{x} * x;
    }
  }
  std::vector<std::vector<float>> values; ///< by slice
  double squares = 0;
};

} // namespace

// PROTOCOL 5
BOOST_AUTO_TEST_CASE(a_norm_is_of_rows_and_layers_whoever_sums_them_first) {
  const auto job = clipped_job();
  BOOST_TEST_REQUIRE(!job->tables.empty());
  const Gradient gradient{*job};
  const auto round = ScalarRoundKind::gradient_norm;
  const auto decided = [&](std::vector<Slice> order) {
    RoundSums all{*job, round};
    for (const auto& slice : order) {
      auto args = slice_update(*job, slice, {0, 0, 64});
      args.gradient_sum = gradient.values[slice.id].data();
      args.count = gradient.values[slice.id].size();
      const auto sums = slice_sums(*job, slice, round, args);
      BOOST_TEST(sums.size() == sums_of(*job, slice, round));
      if (slice.sparse())
        BOOST_TEST(sums.size() == 1u);
      all.put(slice, sums);
    }
    return all.scalars(64);
  };
  auto order = job->plan.slices;
  const auto found = decided(order);
  std::reverse(order.begin(), order.end());
  BOOST_TEST(decided(order) == found, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(found.size() == 1u);
  const auto norm = std::sqrt(gradient.squares) / 64;
  BOOST_TEST_REQUIRE(norm > 0.5);
  BOOST_TEST(double{found.front()} == 0.5 / (norm + 1e-6),
             boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(a_tables_trust_ratio_is_of_the_rows_that_are_touched) {
  const auto job = clipped_job();
  const auto round = ScalarRoundKind::trust_ratios;
  const auto table = job->tables.front();
  RoundSums all{*job, round};
  double values = 0;
  double directions = 0;
  for (const auto& slice : job->plan.slices) {
    if (slice.variable != table || slice.partition % 2 != 0)
      continue; // the others touch no row
    std::vector<double> sums{1.0 + slice.partition, 4.0};
    values += sums[0];
    directions += sums[1];
    all.put(slice, sums);
  }
  const auto found = all.scalars(64);
  BOOST_TEST(found[table] == static_cast<float>(std::sqrt(values / directions)),
             boost::test_tools::tolerance(1e-6f));
  auto args = slice_update(*job, job->plan.slices.front(), {0, 0, 64});
  for (const auto& slice : job->plan.slices)
    if (slice.sparse()) {
      args.count = 0;
      const std::vector<double> none(2);
      BOOST_TEST(slice_sums(*job, slice, round, args) == none,
                 boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_SUITE_END()

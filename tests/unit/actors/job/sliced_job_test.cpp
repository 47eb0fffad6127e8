#include "actors/job/job.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(sliced_job_suite)

namespace {

JobOptions sliced_job(uint32_t slices) {
  auto options = small_job();
  options.model = "mlp:20-32-24-16-4";
  options.cut.virtual_slices = slices;
  return options;
}

} // namespace

BOOST_AUTO_TEST_CASE(virtual_slices_decide_bits_and_strategies_do_not) {
  std::vector<std::string> known;
  for (uint32_t slices : {1, 2, 4}) {
    const auto alone = sliced_job(slices);
    const auto whole = weights(alone);
    for (const auto& other : known)
      BOOST_TEST(other != whole, slices);
    known.push_back(whole);
    auto mirrored = alone;
    mirrored.strategy = Strategy::mirrored;
    mirrored.devices = {"cpu:0", "cpu:1", "cpu:2"};
    BOOST_TEST(weights(mirrored) == whole, slices);
    auto served = alone;
    served.strategy = Strategy::parameter_server;
    served.workers = 3;
    served.shards = 2;
    BOOST_TEST(weights(served) == whole, slices);
    for (uint32_t stages : {2, 5}) {
      auto staged = alone;
      staged.strategy = Strategy::pipeline;
      staged.stages = stages;
      staged.schedule.order = stages == 2 ? "zero_bubble" : "auto";
      BOOST_TEST(weights(staged) == whole, slices << ' ' << stages);
    }
  }
}

BOOST_AUTO_TEST_CASE(norms_over_layers_are_those_of_whole_layers) {
  // The trust ratio of LAMB is a layer's, whoever has its pieces.
  auto alone = sliced_job(4);
  alone.rule.kind = OptimizerKind::lamb;
  alone.clip_norm = 0.05;
  const auto whole = weights(alone);
  auto served = alone;
  served.strategy = Strategy::parameter_server;
  served.shards = 3;
  BOOST_TEST(weights(served) == whole);
  auto staged = alone;
  staged.strategy = Strategy::pipeline;
  staged.stages = 3;
  BOOST_TEST(weights(staged) == whole);
}

BOOST_AUTO_TEST_CASE(slices_that_a_model_has_not_are_refused) {
  for (const auto* model : {"logreg", "sleep:1ms", "mlp:20-3-4"}) {
    auto options = sliced_job(4);
    options.model = model;
    try {
      const Job job{options, 64};
      BOOST_ERROR("accepted");
    } catch (const UsageError& mistake) {
      const std::string line = mistake.what();
      BOOST_TEST(line.starts_with("--virtual-slices"), line);
      BOOST_TEST(line.find(model) != std::string::npos, line);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_layer_in_slices_is_where_its_name_says) {
  auto options = sliced_job(4);
  options.strategy = Strategy::pipeline;
  options.stages = 3;
  options.cut.split_at = "dense_1,dense_2";
  const Job job{options, 64};
  BOOST_TEST(job.plan.stages[1].first == "dense_1[0]");
  BOOST_TEST(job.plan.stages[2].first == "dense_2[0-3].input");
}

BOOST_AUTO_TEST_SUITE_END()

#include "kernels/base/error.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(job)

// What a shard's process does: it has no data.
BOOST_AUTO_TEST_CASE(the_options_of_a_job_make_the_same_job_without_data) {
  auto options = small_job();
  options.model = "mlp:20-16-4";
  options.strategy = Strategy::parameter_server;
  options.rule.weight_decay = 0.25f;
  const Job made{options, *small_data().train};
  BOOST_TEST(made.options.samples == 500u);
  const Job again{job_from_json(to_json(made.options))};
  BOOST_TEST((again.options.sample == small_data().train->shape));
  BOOST_TEST(again.options.rule.weight_decay == 0.25f);
  BOOST_TEST(again.total_steps == made.total_steps);
  BOOST_TEST(again.layout.total == made.layout.total);
  BOOST_TEST((again.plan.slices == made.plan.slices));
  BOOST_TEST(to_json(again.options) == to_json(made.options));
}

BOOST_AUTO_TEST_CASE(a_job_without_samples_is_refused) {
  BOOST_CHECK_THROW(Job{small_job()}, InputError);
}

BOOST_AUTO_TEST_CASE(rows_make_up_updates_where_they_can_know_them) {
  auto options = small_job();
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=300";
  options.samples = 400;
  options.strategy = Strategy::parameter_server;
  options.optimizer = "adam";
  options.rule.kind = OptimizerKind::adam;
  options.sparse_updates = "exact";
  BOOST_TEST(Job{options}.tables.empty());
  options.tables = "sparse";
  const Job job{options};
  BOOST_TEST(!job.tables.empty());
  BOOST_TEST(job.lazy.empty());
  const auto refused = [](JobOptions changed, const std::string& why) {
    BOOST_CHECK_EXCEPTION(Job{changed}, UsageError, [&](const auto& error) {
      return std::string{error.what()}.find(why) != std::string::npos;
    });
  };
  auto changed = options;
  changed.synchronisation = Synchronisation::async;
  refused(changed, "--async");
  changed = options;
  changed.clip_norm = 1;
  refused(changed, "--clip-norm");
  changed = options;
  changed.optimizer = "lamb";
  changed.rule.kind = OptimizerKind::lamb;
  refused(changed, "lamb");
}

BOOST_AUTO_TEST_CASE(options_that_are_no_json_are_refused) {
  BOOST_CHECK_THROW(job_from_json("{"), InputError);
  BOOST_CHECK_THROW(job_from_json("{\"model\": 3}"), InputError);
}

BOOST_AUTO_TEST_SUITE_END()

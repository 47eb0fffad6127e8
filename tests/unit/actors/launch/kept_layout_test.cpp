#include "actors/control/actor_node.hpp"
#include "actors/journal/history.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(kept_layout_suite)

// What operators take would be measured again, and its roles hold other layers.
BOOST_AUTO_TEST_CASE(a_coordinator_that_follows_keeps_to_the_layout) {
  RunOptions options;
  options.job = test::small_job();
  options.job.strategy = Strategy::pipeline;
  options.job.model = "mlp:20-16-16-16-16-4";
  options.job.stages = 3;
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  const auto past = std::make_shared<JobHistory>();
  past->layout =
    R"({"chunks":0,"schedule":"gpipe","split_at":"dense_1,dense_2"})";
  RunJournal journal;
  journal.job = 7;
  journal.term = 2;
  journal.past = past;
  const auto next = start_coordinator(system, options, test::small_data(),
                                      journal, options.began);
  BOOST_TEST(next.job->options.schedule.order == "gpipe");
  BOOST_REQUIRE(next.job->plan.stages.size() == 3u);
  BOOST_TEST(next.job->plan.stages[1].first == "dense_1");
  BOOST_TEST(next.job->plan.stages[2].first == "dense_2");
  caf::anon_send_exit(next.actor, caf::exit_reason::kill);
}

BOOST_AUTO_TEST_SUITE_END()

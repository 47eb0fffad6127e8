#include "kernels/base/error.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(consistency)

namespace {

JobOptions asynchronous(uint32_t workers, uint32_t shards) {
  auto job = small_job();
  job.strategy = Strategy::parameter_server;
  job.synchronisation = Synchronisation::async;
  job.workers = workers;
  job.shards = shards;
  job.epochs = 10;
  return job;
}

} // namespace

// I5
BOOST_AUTO_TEST_CASE(the_lead_over_the_slowest_stays_within_the_bound) {
  for (int bound : {0, 1, 3}) {
    auto job = asynchronous(4, 2);
    job.staleness = bound;
    const auto summary = run(job);
    BOOST_TEST(summary["consistency"]["mode"]
               == "staleness:" + std::to_string(bound));
    BOOST_TEST(summary["consistency"]["max_lead"].get<int>() <= bound);
    BOOST_TEST(summary["samples"].get<int>() == 10 * 500); // I6
  }
}

BOOST_AUTO_TEST_CASE(without_a_bound_a_worker_holds_more_than_one_lease) {
  const auto summary = run(asynchronous(4, 2));
  BOOST_TEST(summary["consistency"]["mode"] == "async");
  BOOST_TEST(summary["consistency"]["max_lead"].get<int>() > 0);
}

// Each push of an old pull is refused; what it was to do is done all the same.
BOOST_AUTO_TEST_CASE(a_lease_that_is_refused_as_too_stale_is_not_lost) {
  auto job = asynchronous(4, 2);
  job.reject_stale = 0;
  const auto summary = run(job);
  BOOST_TEST(summary["consistency"]["rejected_too_stale"].get<int>() > 0);
  BOOST_TEST(summary["samples"].get<int>() == 10 * 500); // I6
  BOOST_TEST(summary["steps"].get<int>() == 10 * 8);
}

BOOST_AUTO_TEST_CASE(no_push_of_a_single_worker_in_lockstep_is_damped) {
  auto job = asynchronous(1, 2);
  job.staleness = 0;
  const auto expected = weights(job);
  job.staleness_damping = "inverse";
  BOOST_TEST(weights(job) == expected);
  job.staleness = 6; // its pulls run ahead of its pushes no more than that
  job.workers = 4;
  BOOST_TEST(run(job)["samples"].get<int>() == 10 * 500);
}

JobOptions with_backups(uint32_t workers, uint32_t shards, uint32_t backups) {
  auto job = asynchronous(workers, shards);
  job.synchronisation = Synchronisation::sync;
  job.reduction = "fast";
  job.backup_workers = backups;
  return job;
}

// PROTOCOL 13
BOOST_AUTO_TEST_CASE(every_step_is_made_of_all_but_the_backup_workers) {
  for (uint32_t backups : {1, 3}) {
    const auto summary = run(with_backups(4, 3, backups));
    BOOST_TEST(summary["steps"].get<int>() == 10 * 8);
    BOOST_TEST(summary["consistency"]["late_gradients_dropped"].get<uint32_t>()
               == 10 * 8 * backups);
    BOOST_TEST(summary["samples"].get<int>() < 10 * 500);
  }
}

BOOST_AUTO_TEST_CASE(
  a_straggler_does_not_hold_a_step_up_and_gets_to_the_newest) {
  auto job = with_backups(3, 2, 1);
  job.slow_worker = "1:30";
  job.epochs = 30;
  job.learning_rate = 1e-2;
  const auto summary = run(job);
  BOOST_TEST(summary["steps"].get<int>() == 30 * 8);
  BOOST_TEST(summary["eval"]["accuracy"].get<double>() > 0.6);
}

BOOST_AUTO_TEST_CASE(
  steps_without_their_stragglers_are_clipped_by_their_own_norm) {
  auto job = with_backups(3, 2, 1);
  job.clip_norm = 0.05;
  BOOST_TEST(run(job)["steps"].get<int>() == 10 * 8);
}

BOOST_AUTO_TEST_CASE(backup_workers_are_refused_where_every_gradient_counts) {
  auto refused = [](JobOptions job) {
    BOOST_CHECK_THROW(run(job), UsageError);
  };
  auto job = with_backups(3, 2, 1);
  job.reduction = "reproducible";
  refused(job);
  job = with_backups(3, 2, 3);
  refused(job);
  job = with_backups(3, 2, 1);
  job.synchronisation = Synchronisation::async;
  refused(job);
}

/// Switches to each mode in turn, some steps after the one before.
nlohmann::json run_switching(JobOptions job, std::vector<std::string> modes) {
  RunOptions options;
  options.job = std::move(job);
  uint64_t step = 0;
  uint64_t due = 5;
  options.events.progress = [&](const Progress& x) { step = x.step; };
  options.events.consistency = [&] {
    if (modes.empty() || step < due)
      return std::string{};
    const auto mode = modes.front();
    modes.erase(modes.begin());
    due = step + 20;
    return mode;
  };
  const auto result = run_in_process(options, small_data());
  if (result.status != 0)
    throw std::runtime_error(result.line);
  return nlohmann::json::parse(result.summary);
}

JobOptions long_job(uint32_t workers, uint32_t shards) {
  auto job = asynchronous(workers, shards);
  job.model = "sleep:1ms-30";
  job.synchronisation = Synchronisation::sync;
  job.optimizer = "sgd";
  job.rule.kind = OptimizerKind::sgd;
  job.eval_every = 0;
  job.epochs = 60;
  return job;
}

// PROTOCOL 12
BOOST_AUTO_TEST_CASE(
  a_running_job_switches_back_and_forth_and_loses_no_sample) {
  const auto summary = run_switching(
    long_job(3, 2), {"async", "staleness:1", "sync", "staleness:2", "sync"});
  const auto& switches = summary["consistency"]["switches"];
  BOOST_TEST(switches.size() == 5u);
  for (const auto& x : switches)
    BOOST_TEST(x["step"].get<int>() > 0);
  BOOST_TEST(summary["steps"].get<int>() == 60 * 8);
  BOOST_TEST(summary["samples"].get<int>() == 60 * 500); // I6
  BOOST_TEST(summary["steps_rolled_back"].get<int>() == 0);
}

// A lone worker in lockstep computes the leaves in order, each from the newest
// parameters: between two switches it is a synchronous run of one rank.
BOOST_AUTO_TEST_CASE(with_one_virtual_rank_a_switch_does_not_change_the_bits) {
  auto job = long_job(1, 2);
  job.model = "mlp:20-16-4";
  job.optimizer = "adam";
  job.rule.kind = OptimizerKind::adam;
  job.lr.schedule = LrSchedule::cosine;
  job.virtual_ranks = 1;
  job.global_batch = 50; // every step is whole
  job.epochs = 2000;
  const auto expected = run(job);
  const auto summary = run_switching(job,
                                     {"staleness:0", "sync", "staleness:0"});
  BOOST_TEST(summary["consistency"]["switches"].size() == 3u);
  BOOST_TEST(summary["weights_sha256"] == expected["weights_sha256"]);
  BOOST_TEST(summary["state_sha256"] == expected["state_sha256"]);
}

BOOST_AUTO_TEST_SUITE_END()

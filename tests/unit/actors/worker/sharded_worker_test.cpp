#include "kernels/base/error.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(sharded_worker)

namespace {

JobOptions sharded(JobOptions job, Sharding sharding, uint32_t workers) {
  job.strategy = Strategy::fully_sharded;
  job.cut.sharding = sharding;
  job.workers = workers;
  return job;
}

JobOptions deep_job() {
  auto job = small_job();
  job.model = "mlp:20-16-24-16-4";
  return job;
}

void check_levels(const JobOptions& job, uint32_t max_workers = 4) {
  const auto whole = run(job);
  for (auto sharding :
       {Sharding::optimizer, Sharding::gradients, Sharding::parameters})
    for (uint32_t workers = 1; workers <= max_workers; ++workers) {
      const auto found = run(sharded(job, sharding, workers));
      BOOST_TEST_CONTEXT("--shard " << to_string(sharding) << ", " << workers
                                    << " workers") {
        for (const auto* name : {"weights_sha256", "state_sha256"})
          BOOST_TEST(found[name].get<std::string>()
                     == whole[name].get<std::string>());
        BOOST_TEST(found["final_loss"].get<double>()
                   == whole["final_loss"].get<double>());
        BOOST_TEST(found["samples"].get<uint64_t>()
                   == whole["samples"].get<uint64_t>());
      }
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(any_share_on_any_workers_has_the_bits_of_one_device) {
  check_levels(deep_job());
}

BOOST_AUTO_TEST_CASE(norms_over_all_parameters_go_over_all_owners) {
  auto job = deep_job();
  job.epochs = 1;
  job.clip_norm = 0.01;
  check_levels(job, 3);
  job.optimizer = "lamb";
  job.rule.kind = OptimizerKind::lamb;
  check_levels(job, 2);
}

BOOST_AUTO_TEST_CASE(ranks_without_samples_are_leaves_of_nothing) {
  auto job = deep_job();
  job.virtual_ranks = 13;
  job.global_batch = 13;
  job.epochs = 1; // 500 samples: the last step has 6
  check_levels(job, 3);
}

BOOST_AUTO_TEST_CASE(copies_with_neighbours_change_no_bit) {
  const auto whole = weights(deep_job());
  for (auto sharding : {Sharding::optimizer, Sharding::parameters})
    for (uint32_t workers : {2, 3}) {
      auto job = sharded(deep_job(), sharding, workers);
      job.chain = 2;
      BOOST_TEST(weights(job) == whole);
    }
}

BOOST_AUTO_TEST_CASE(a_model_of_one_operator_is_one_part) {
  auto job = small_job();
  job.model = "mlp:20-4";
  check_levels(job, 2);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused_with_a_line) {
  const auto refused = [](const JobOptions& job) {
    try {
      const Job made{job, 500};
    } catch (const UsageError& mistake) {
      return std::string{mistake.what()};
    }
    return std::string{};
  };
  auto job = sharded(deep_job(), Sharding::parameters, 2);
  BOOST_TEST(refused(job) == "");
  job.chain = 3;
  BOOST_TEST(refused(job).starts_with("--chain 3 keeps as many copies"));
  job.chain = 1;
  job.reduction = "fast";
  BOOST_TEST(refused(job).starts_with("--reduction fast has no effect"));
  job.reduction = "reproducible";
  job.synchronisation = Synchronisation::async;
  BOOST_TEST(refused(job).starts_with("strategy fully_sharded is synchronous"));
  job.synchronisation = Synchronisation::sync;
  job.model = "sleep:5ms";
  BOOST_TEST(refused(job).find("has no layers to take one by one")
             != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

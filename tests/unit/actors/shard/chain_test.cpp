#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(chain)

namespace {

JobOptions chained(uint32_t workers, uint32_t shards, uint32_t chain) {
  auto job = small_job();
  job.strategy = Strategy::parameter_server;
  job.workers = workers;
  job.shards = shards;
  job.chain = chain;
  return job;
}

} // namespace

// I3
BOOST_AUTO_TEST_CASE(a_chain_of_any_length_gives_the_bits_of_one_device) {
  const auto expected = run(small_job());
  for (uint32_t shards : {1, 2})
    for (uint32_t length : {1, 2, 3}) {
      const auto found = run(chained(2, shards, length));
      BOOST_TEST(found["weights_sha256"] == expected["weights_sha256"]);
      BOOST_TEST(found["state_sha256"] == expected["state_sha256"]);
    }
}

// PROTOCOL 5
BOOST_AUTO_TEST_CASE(scalars_over_all_variables_go_down_the_chain) {
  for (const char* name : {"adamw", "lamb"}) {
    auto job = small_job();
    job.epochs = 1;
    job.optimizer = name;
    job.rule.kind = parse_optimizer(name);
    job.clip_norm = 0.05;
    const auto expected = run(job);
    for (uint32_t length : {2, 3}) {
      auto served = chained(2, 2, length);
      served.epochs = 1;
      served.optimizer = name;
      served.rule = job.rule;
      served.clip_norm = job.clip_norm;
      const auto found = run(served);
      BOOST_TEST(found["weights_sha256"] == expected["weights_sha256"]);
      BOOST_TEST(found["state_sha256"] == expected["state_sha256"]);
    }
  }
}

BOOST_AUTO_TEST_CASE(leases_are_consumed_at_the_tail) {
  auto job = chained(3, 2, 3);
  job.synchronisation = Synchronisation::async;
  const auto found = run(job);
  BOOST_TEST(found["steps"] == run(small_job())["steps"]);
  job.learning_rate = 1e-30; // as far as nothing
  BOOST_TEST(found["eval"]["loss"].get<double>()
             < run(job)["eval"]["loss"].get<double>());
}

BOOST_AUTO_TEST_SUITE_END()

#include "small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

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

BOOST_AUTO_TEST_SUITE(consistency)

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

BOOST_AUTO_TEST_SUITE_END()

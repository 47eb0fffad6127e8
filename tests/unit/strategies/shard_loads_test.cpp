#include "strategies/shard_loads.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(shard_loads)

namespace {

/// Two shards that keep as much, of which the second is `factor` times as busy.
ShardLoads measured(double factor, uint64_t ms = 4'000) {
  ShardLoads loads;
  loads.keeps(0, 1'000);
  loads.keeps(1, 1'000);
  for (uint64_t now = 0; now <= ms; now += 1'000) {
    const auto seconds = 0.2 * static_cast<double>(now) / 1000;
    loads.busy(0, 7 + seconds, now);
    loads.busy(1, factor * seconds, now);
  }
  return loads;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_shard_that_is_busier_for_each_byte_costs_more) {
  const auto costs = measured(2).costs();
  BOOST_TEST(costs.size() == 1u);
  BOOST_TEST(costs.at(1) == 2, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(measured(100).costs().at(1) == 4);
}

BOOST_AUTO_TEST_CASE(chance_moves_nothing) {
  BOOST_TEST(measured(1.2).costs().empty());
  BOOST_TEST(measured(3, 1'000).costs().empty()); // too short
  auto idle = ShardLoads{};
  BOOST_TEST(idle.costs().empty());
}

BOOST_AUTO_TEST_CASE(what_it_keeps_makes_the_difference) {
  auto loads = measured(2);
  loads.keeps(1, 2'000); // begins anew
  BOOST_TEST(loads.costs().empty());
  for (uint64_t now = 5'000; now <= 8'000; now += 1'000)
    loads.busy(1, 0.4 * static_cast<double>(now) / 1000, now);
  BOOST_TEST(loads.costs().empty()); // twice the work for twice the bytes
}

BOOST_AUTO_TEST_CASE(a_new_process_counts_from_its_beginning) {
  auto loads = measured(1);
  loads.busy(0, 0.0, 5'000);
  loads.busy(0, 0.1, 5'500);
  BOOST_TEST(loads.costs().empty());
}

BOOST_AUTO_TEST_SUITE_END()

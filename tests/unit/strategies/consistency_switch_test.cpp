#include "strategies/consistency_switch.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(consistency_switch)

namespace {

Consistency mode(const std::string& text) {
  Consistency out;
  BOOST_REQUIRE(parse(text, out));
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(modes_are_read_as_they_are_written) {
  for (const auto* text : {"sync", "async", "staleness:0", "staleness:17"})
    BOOST_TEST(to_string(mode(text)) == text);
  Consistency out;
  for (const auto* text : {"", "Sync", "staleness", "staleness:",
                           "staleness:-1", "staleness:3x", "async "})
    BOOST_TEST(!parse(text, out), text);
}

// PROTOCOL 12: V leases are a step, and a slice has one update for each.
BOOST_AUTO_TEST_CASE(updates_and_steps_are_counted_over_all_periods) {
  constexpr uint32_t ranks = 4;
  ConsistencySwitch x{mode("sync"), ranks};
  BOOST_TEST(x.now().step_of(9, ranks) == 9u);
  x.ask(mode("async"));
  x.drain_at(10);
  auto now = x.take_place();
  BOOST_TEST(now.period == 1u);
  BOOST_TEST(now.step == 10u);
  BOOST_TEST(now.updates == 10u);
  BOOST_TEST(now.count_from() == 0u);
  BOOST_TEST(now.step_of(10, ranks) == 10u);
  BOOST_TEST(now.step_of(17, ranks) == 11u); // 7 leases: a step and 3 ranks
  x.ask(mode("sync"));
  x.drain_at(15);
  now = x.take_place();
  BOOST_TEST(now.updates == 10u + 5 * ranks);
  // Version 15 of a slice is its 30th update.
  BOOST_TEST(now.count_from() == 15u);
  BOOST_TEST(now.step_of(15, ranks) == 15u);
}

BOOST_AUTO_TEST_CASE(another_bound_begins_no_period) {
  ConsistencySwitch x{mode("async"), 4};
  x.ask(mode("staleness:3"));
  BOOST_TEST(x.bound_only());
  const auto now = x.take_place();
  BOOST_TEST(now.period == 0u);
  BOOST_TEST(now.staleness == 3);
  BOOST_TEST(!x.pending());
}

BOOST_AUTO_TEST_CASE(after_an_epoch_change_the_drain_begins_anew) {
  ConsistencySwitch x{mode("sync"), 4};
  x.ask(mode("async"));
  x.drain_at(10);
  x.drain_again();
  BOOST_TEST(x.pending());
  BOOST_TEST(!x.drain().has_value());
}

BOOST_AUTO_TEST_SUITE_END()

#include "actors/links/cable_metrics.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(cable_metrics)

// A worker of a hybrid job has messages and sums on links of their own to one
// peer; the stall of one was overwritten by the other, of which there was none.
BOOST_AUTO_TEST_CASE(of_two_links_to_one_peer_the_worst_is_shown) {
  MetricRegistry registry;
  const auto shown = [&] {
    const auto all = registry.collect();
    const auto found = std::ranges::find(all, "troupe_link_stalled_seconds",
                                         &MetricSample::name);
    return found == all.end() ? -1 : found->value;
  };
  CableMetrics messages;
  CableMetrics sums;
  const CableCounts stuck{
    .delivered_bytes = 10, .busy_seconds = 1, .tries_again = true};
  const CableCounts moving{.delivered_bytes = 10, .busy_seconds = 1};
  messages.show(stuck, registry, "worker:1"); // both have been busy
  sums.show(moving, registry, "worker:1");
  for (int i = 0; i < 3; ++i) {
    messages.look(stuck, registry, "worker:1");
    sums.look(moving, registry, "worker:1");
  }
  const auto stalled = shown();
  BOOST_TEST(stalled > 0);
  sums.end(); // its connection, not the other's
  BOOST_TEST(shown() == stalled);
  messages.end();
  BOOST_TEST(shown() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

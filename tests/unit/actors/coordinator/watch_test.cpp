#include "actors/coordinator/watch.hpp"
#include "monitoring/supervision_names.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(coordinator_watch)

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};

double shown(const CoordinatorWatch& watch, const MetricDescription& metric) {
  std::vector<MetricSample> samples;
  watch.show_supervision({worker0}, {}, samples);
  return std::ranges::find(samples, std::string{metric.name},
                           &MetricSample::name)
    ->value;
}

} // namespace

// Symptom: `troupe status` counted restarts down to none while a host was away,
// which spends nothing, and the run went on.
BOOST_AUTO_TEST_CASE(restarts_are_left_as_who_starts_roles_says) {
  CoordinatorWatch watch{5};
  BOOST_TEST(shown(watch, metrics::restarts_left) == 5);
  for (int i = 0; i < 7; ++i)
    watch.restarted(worker0, 5); // its host is away
  BOOST_TEST(shown(watch, metrics::supervised) == 7);
  BOOST_TEST(shown(watch, metrics::restarts_left) == 5);
  watch.restarted(worker0, 3);
  BOOST_TEST(shown(watch, metrics::restarts_left) == 3);
  BOOST_TEST(shown(watch, metrics::restarts_allowed) == 5);
}

BOOST_AUTO_TEST_CASE(a_new_step_gives_restarts_back) {
  CoordinatorWatch watch{5};
  watch.committed(7, 0.01);
  watch.restarted(worker0, 2);
  watch.committed(7, 0.01); // done again after a rollback
  BOOST_TEST(shown(watch, metrics::restarts_left) == 2);
  watch.committed(8, 0.01);
  BOOST_TEST(shown(watch, metrics::restarts_left) == 5);
}

BOOST_AUTO_TEST_SUITE_END()

#include "actors/role/kept_reports.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

namespace {

struct WithReports {
  KeptReports reports;

  void keep(uint64_t step, size_t leaves = 2) {
    LeafReport report;
    report.step = step;
    report.leaves.resize(leaves);
    report.exchange_seconds = 1;
    report.computed_twice = true;
    reports.keep(report);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(kept_reports, WithReports)

BOOST_AUTO_TEST_CASE(what_is_not_committed_is_said_again) {
  for (uint64_t step = 0; step < 4; ++step)
    keep(step);
  const auto& kept = reports.after(2);
  BOOST_REQUIRE_EQUAL(kept.size(), 2u);
  BOOST_TEST(kept.front().step == 2u);
  BOOST_TEST(kept.front().again);
  BOOST_TEST(kept.front().exchange_seconds == 0); // that was heard, or was not
  BOOST_TEST(!kept.front().computed_twice);
  BOOST_TEST(reports.after(0).size() == 2u);
}

BOOST_AUTO_TEST_CASE(the_newest_are_kept) {
  const auto each = KeptReports::max_leaves / 4;
  for (uint64_t step = 0; step < 6; ++step)
    keep(step, each);
  BOOST_REQUIRE_EQUAL(reports.after(0).size(), 4u);
  BOOST_TEST(reports.after(0).front().step == 2u);
  reports.after(4);
  keep(6, each);
  keep(7, each);
  BOOST_TEST(reports.after(0).size() == 4u);
}

BOOST_AUTO_TEST_CASE(what_is_undone_is_not_said_again) {
  keep(0);
  reports.enter(false);
  BOOST_TEST(reports.after(0).size() == 1u);
  reports.enter(true);
  BOOST_TEST(reports.after(0).empty());
}

BOOST_AUTO_TEST_SUITE_END()

#include "strategies/first_links.hpp"

#include <boost/test/unit_test.hpp>

// Symptom: a role that announced 127.0.0.1 to another host had an error
// repeated for ever, at step 0.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(first_links)

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};

} // namespace

BOOST_AUTO_TEST_CASE(each_role_is_told_of_once) {
  FirstLinks links{{.attempts = 3, .patience_ms = 1'000}};
  BOOST_TEST(links.lost(worker1, "no way", 0).note == "worker:1: no way");
  BOOST_TEST(links.lost(worker1, "no way", 10).note.empty());
  BOOST_TEST(links.lost(worker0, "no way", 20).note == "worker:0: no way");
}

BOOST_AUTO_TEST_CASE(who_keeps_failing_ends_the_run_with_every_pair) {
  FirstLinks links{{.attempts = 2, .patience_ms = 1'000}};
  BOOST_TEST(links.lost(worker0, "not worker:1", 0).fail.empty());
  BOOST_TEST(links.lost(worker1, "not worker:0", 100).fail.empty());
  BOOST_TEST(links.lost(worker0, "not worker:1", 999).fail.empty());
  const auto line = links.lost(worker0, "not worker:1", 1'000).fail;
  BOOST_TEST(line.find("worker:0: not worker:1") != line.npos);
  BOOST_TEST(line.find("worker:1: not worker:0") != line.npos);
  BOOST_TEST(line.find("--listen HOST:PORT") != line.npos);
}

BOOST_AUTO_TEST_CASE(one_failure_is_an_accident_however_late) {
  FirstLinks links;
  BOOST_TEST(links.lost(worker0, "cut", 0).fail.empty());
  BOOST_TEST(links.lost(worker1, "cut", 60'000).fail.empty());
}

BOOST_AUTO_TEST_SUITE_END()

#include "actors/shard/row_desk.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(row_desk)

namespace {

constexpr RoleId worker{RoleKind::worker, 1};

RowPull pull_of(uint64_t version) {
  RowPull pull;
  pull.worker = worker;
  pull.version = version;
  return pull;
}

KnownLists::List list_of(const IdPage& page) {
  return std::make_shared<const RowList>(IdPages{page});
}

} // namespace

// Seed 292: a late copy of an older pull left its ids with the newest wish,
// whose rows the worker could not use, or took for others.
BOOST_AUTO_TEST_CASE(a_late_copy_of_an_older_pull_does_not_change_the_ids) {
  RowDesk desk;
  desk.reset();
  desk.want(pull_of(24), list_of({7, 0b101}), {});
  desk.want(pull_of(11), list_of({3, 0b1}), {});
  BOOST_TEST(desk.serve(22, 23).empty());
  const auto ready = desk.serve(23, 24);
  BOOST_REQUIRE_EQUAL(ready.size(), 1u);
  BOOST_TEST(ready.front().version == 24u);
  BOOST_REQUIRE_EQUAL(ready.front().ids->count(), 2u);
  BOOST_TEST(ready.front().ids->pages().front().page == 7u);
}

BOOST_AUTO_TEST_CASE(a_newer_pull_replaces_the_older_one) {
  RowDesk desk;
  desk.reset();
  desk.want(pull_of(11), list_of({3, 0b1}), {});
  desk.want(pull_of(24), list_of({7, 0b101}), {});
  BOOST_TEST(desk.serve(10, 11).empty());
  BOOST_TEST(desk.serve(23, 24).size() == 1u);
  BOOST_TEST(desk.serve(23, 24).empty());
}

BOOST_AUTO_TEST_SUITE_END()

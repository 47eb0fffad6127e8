#include "strategies/reader_shares.hpp"

#include <boost/test/unit_test.hpp>

#include <map>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(reader_shares)

namespace {

std::set<RoleId> present(uint32_t workers, uint32_t readers) {
  std::set<RoleId> out{{RoleKind::shard, 0}, {RoleKind::coordinator, 0}};
  for (uint32_t i = 0; i < workers; ++i)
    out.insert({RoleKind::worker, i});
  for (uint32_t i = 0; i < readers; ++i)
    out.insert({RoleKind::reader, i});
  return out;
}

/// How many workers each reader serves.
std::map<RoleId, uint32_t> served(const std::set<RoleId>& present) {
  std::map<RoleId, uint32_t> out;
  for (auto role : present)
    if (role.kind == RoleKind::worker)
      for (auto reader : readers_of(role, present))
        ++out[reader];
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(nobody_reads_where_no_reader_is_there) {
  BOOST_TEST(readers_of({RoleKind::worker, 1}, present(3, 0)).empty());
}

BOOST_AUTO_TEST_CASE(workers_share_fewer_readers_evenly) {
  for (uint32_t workers = 1; workers <= 9; ++workers)
    for (uint32_t readers = 1; readers <= workers; ++readers) {
      const auto all = served(present(workers, readers));
      BOOST_TEST(all.size() == readers);
      for (auto [reader, count] : all)
        BOOST_TEST((count == workers / readers
                    || count == (workers + readers - 1) / readers));
    }
}

BOOST_AUTO_TEST_CASE(more_readers_than_workers_have_one_worker_each) {
  for (uint32_t workers = 1; workers <= 5; ++workers)
    for (uint32_t readers = workers; readers <= 9; ++readers) {
      const auto all = served(present(workers, readers));
      BOOST_TEST(all.size() == readers);
      for (auto [reader, count] : all)
        BOOST_TEST(count == 1u);
    }
}

BOOST_AUTO_TEST_CASE(places_count_those_who_are_there) {
  // worker:0 and reader:1 are lost: who is left moves up.
  std::set<RoleId> left{{RoleKind::worker, 1},
                        {RoleKind::worker, 4},
                        {RoleKind::reader, 0},
                        {RoleKind::reader, 2}};
  const std::vector<RoleId> first{{RoleKind::reader, 0}};
  const std::vector<RoleId> second{{RoleKind::reader, 2}};
  BOOST_TEST((readers_of({RoleKind::worker, 1}, left) == first));
  BOOST_TEST((readers_of({RoleKind::worker, 4}, left) == second));
}

BOOST_AUTO_TEST_CASE(a_worker_that_has_not_joined_yet_is_counted) {
  const auto before = present(1, 2);
  const std::vector<RoleId> second{{RoleKind::reader, 1}};
  BOOST_TEST((readers_of({RoleKind::worker, 1}, before) == second));
}

BOOST_AUTO_TEST_CASE(others_are_tried_from_the_own_ones_on_and_around) {
  constexpr auto reader = [](uint32_t i) {
    return RoleId{RoleKind::reader, i};
  };
  const std::set<RoleId> present{
    {RoleKind::worker, 0}, reader(0), reader(1), reader(2), reader(3)};
  BOOST_TEST((other_readers({reader(1)}, present)
              == std::vector{reader(2), reader(3), reader(0)}));
  BOOST_TEST((other_readers({reader(3)}, present)
              == std::vector{reader(0), reader(1), reader(2)}));
  BOOST_TEST(other_readers({}, {{RoleKind::worker, 0}}).empty());
}

BOOST_AUTO_TEST_SUITE_END()

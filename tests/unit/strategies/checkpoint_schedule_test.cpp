#include "strategies/checkpoint_schedule.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(checkpoint_schedule)

namespace {

using troupe::checkpoint_that_makes_room;
using troupe::checkpoints_to_remove;
using troupe::CheckpointSchedule;
using troupe::KeptCheckpoint;
using Places = std::vector<size_t>;

CheckpointSchedule every(uint64_t steps, uint64_t from = 0) {
  return CheckpointSchedule{{steps, from, 1'000}};
}

} // namespace

BOOST_AUTO_TEST_CASE(multiples_of_the_period_are_asked_for_one_at_a_time) {
  auto schedule = every(100);
  BOOST_TEST(schedule.due(0, false, 0).value() == 100u);
  BOOST_TEST(!schedule.due(50, false, 10));
  BOOST_TEST(!schedule.arrived(99));
  BOOST_TEST(schedule.arrived(100));
  BOOST_TEST(!schedule.due(101, false, 20)); // it is being written
  schedule.written();
  BOOST_TEST(schedule.due(102, false, 30).value() == 200u);
}

BOOST_AUTO_TEST_CASE(what_a_slow_disk_cannot_take_is_left_out) {
  auto schedule = every(10);
  BOOST_TEST(schedule.due(0, false, 0).value() == 10u);
  BOOST_TEST(schedule.arrived(10));
  BOOST_TEST(!schedule.due(47, false, 500));
  schedule.written();
  BOOST_TEST(schedule.due(48, false, 510).value() == 50u);
}

BOOST_AUTO_TEST_CASE(a_version_that_was_missed_makes_the_next_come_earlier) {
  auto schedule = every(1);
  BOOST_TEST(schedule.due(0, false, 0).value() == 2u);
  BOOST_TEST(!schedule.due(7, false, 100));
  BOOST_TEST(!schedule.due(70, false, 1'050)); // it may be on its way
  BOOST_TEST(schedule.due(80, false, 1'100).value() == 84u);
  BOOST_TEST(schedule.lead() == 4u);
}

BOOST_AUTO_TEST_CASE(another_epoch_is_asked_again_for_what_it_still_has) {
  auto schedule = every(100);
  BOOST_TEST(!schedule.again(0, 0));
  BOOST_TEST(schedule.due(0, false, 0).value() == 100u);
  BOOST_TEST(schedule.again(60, 10).value() == 100u);
  BOOST_TEST(schedule.again(100, 20).value() == 100u);
  BOOST_TEST(!schedule.again(101, 30));
  BOOST_TEST(schedule.due(101, false, 40).value() == 200u);
}

BOOST_AUTO_TEST_CASE(an_asynchronous_job_is_asked_once_it_is_past_a_multiple) {
  auto schedule = every(100, 150);
  BOOST_TEST(!schedule.due(150, true, 0));
  BOOST_TEST(!schedule.due(199, true, 0));
  BOOST_TEST(schedule.due(203, true, 0).value() == 203u);
  BOOST_TEST(schedule.arrived(203));
  schedule.written();
  BOOST_TEST(!schedule.due(299, true, 0));
  BOOST_TEST(schedule.due(300, true, 0).value() == 300u);
}

BOOST_AUTO_TEST_CASE(after_a_rollback_the_same_versions_come_again) {
  auto schedule = every(100);
  for (auto version : {100u, 200u}) {
    BOOST_TEST(schedule.due(version - 50, false, 0).value() == version);
    BOOST_TEST(schedule.arrived(version));
    schedule.written();
  }
  BOOST_TEST(schedule.due(220, false, 0).value() == 300u);
  schedule.rolled_back(100);
  BOOST_TEST(schedule.due(100, false, 0).value() == 200u);
}

BOOST_AUTO_TEST_CASE(a_job_that_resumes_begins_after_what_it_has) {
  auto schedule = every(100, 300);
  BOOST_TEST(schedule.due(300, false, 0).value() == 400u);
  auto never = every(0);
  BOOST_TEST(!never.due(1'000, false, 0));
}

BOOST_AUTO_TEST_CASE(the_newest_stay_and_what_the_run_began_with) {
  const auto gone = [](std::vector<uint64_t> steps, size_t keep,
                       std::optional<size_t> needed) {
    std::vector<KeptCheckpoint> there;
    for (auto step : steps)
      there.push_back({step, false});
    return checkpoints_to_remove(there, keep, needed, 0);
  };
  BOOST_TEST(gone({5, 4, 3, 2}, 2, {}) == (Places{2, 3}));
  BOOST_TEST(gone({5, 4, 3, 2}, 2, 3) == Places{2});
  BOOST_TEST(gone({5, 5, 4, 3}, 2, {}) == (Places{1, 3}));
  BOOST_TEST(gone({5}, 2, {}).empty());
}

// A run that had begun anew removed, with its first checkpoint, one of those
// before it, and soon all of them.
BOOST_AUTO_TEST_CASE(old_ones_stay_until_there_are_as_many_new_ones) {
  std::vector<KeptCheckpoint> there{{30, true}, {20, true}, {10, true}};
  const auto add = [&](uint64_t step) {
    there.insert(there.begin(), {step, false});
    return checkpoints_to_remove(there, 3, 0 + there.size() - 3, 3);
  };
  BOOST_TEST(add(40).empty());
  BOOST_TEST(add(50).empty());
  BOOST_TEST(add(60) == (Places{4, 5})); // 30 is where the run began
  there = {{30, true}, {20, true}, {10, true}};
  there.insert(there.begin(), {40, false});
  BOOST_TEST(checkpoints_to_remove(there, 1, {}, 3) == (Places{1, 2, 3}));
}

// Runs that wrote one checkpoint each removed none.
BOOST_AUTO_TEST_CASE(runs_that_write_one_each_keep_twice_as_many_at_most) {
  std::vector<KeptCheckpoint> there;
  for (uint64_t run = 1; run <= 8; ++run) {
    for (auto& one : there)
      one.old = true;
    const auto old = there.size();
    there.insert(there.begin(), {run, false});
    const auto gone = checkpoints_to_remove(
      there, 2, old == 0 ? std::nullopt : std::optional<size_t>{1}, old);
    BOOST_TEST(gone == (run > 4 ? Places{4} : Places{}));
    there.resize(there.size() - gone.size());
  }
  // Where the run began stays among them, and so does all before a new one.
  there = {{5, false}, {4, true}, {3, true}, {2, true}, {1, true}};
  BOOST_TEST(checkpoints_to_remove(there, 2, 4, 4) == Places{3});
  there.erase(there.begin());
  BOOST_TEST(checkpoints_to_remove(there, 1, 0, 4).empty());
}

BOOST_AUTO_TEST_CASE(where_there_is_no_room_an_old_one_goes_for_each_new_one) {
  std::vector<KeptCheckpoint> there{{30, true}, {20, true}, {10, true}};
  BOOST_TEST(!checkpoint_that_makes_room(there, 0, 0));
  there.insert(there.begin(), {40, false});
  BOOST_TEST(checkpoint_that_makes_room(there, 1, 0).value() == 3u);
  there.pop_back();
  BOOST_TEST(!checkpoint_that_makes_room(there, 1, 1));
  there.insert(there.begin(), {50, false});
  BOOST_TEST(checkpoint_that_makes_room(there, 2, 1).value() == 3u);
  there.pop_back();
  // The old one is needed; of the new ones one stays.
  BOOST_TEST(checkpoint_that_makes_room(there, 2, 1).value() == 1u);
  there.erase(there.begin() + 1);
  BOOST_TEST(!checkpoint_that_makes_room(there, 1, 1));
}

BOOST_AUTO_TEST_SUITE_END()

#include "strategies/free_rows.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <random>

BOOST_AUTO_TEST_SUITE(free_rows_test)

using namespace troupe;

BOOST_AUTO_TEST_CASE(a_slice_is_through_a_step_when_every_rank_of_it_is_in) {
  LeaseSet applied;
  for (uint64_t lease : {0, 1, 2, 4, 5})
    applied.insert(lease);
  BOOST_TEST(steps_through(applied, 3) == 1u);
  applied.insert(3);
  BOOST_TEST(steps_through(applied, 3) == 2u);
}

BOOST_AUTO_TEST_CASE(rows_are_read_when_the_slice_is_within_the_bound) {
  const LeaseSet two_steps{8, {9}};
  BOOST_TEST(may_read(two_steps, 2, 0, 4));
  BOOST_TEST(!may_read(two_steps, 3, 0, 4));
  BOOST_TEST(may_read(two_steps, 3, 1, 4));
  BOOST_TEST(!may_read(two_steps, 4, 1, 4));
  BOOST_TEST(may_read(LeaseSet{}, 5, 5, 4));
  BOOST_TEST(may_read(LeaseSet{}, 5, ~uint64_t{0}, 4));
}

BOOST_AUTO_TEST_CASE(who_owns_a_rank_computes_again_what_some_slice_lacks) {
  const std::vector<LeaseSet> held{{8, {9, 11}}, {12, {}}, {4, {5, 6, 7, 8}}};
  const auto all = lost_leaves(held, 3, {0, 4}, 4);
  BOOST_REQUIRE_EQUAL(all.size(), 2u);
  BOOST_TEST((all[0] == LostLeaves{1, {{0, 1}}}));
  BOOST_TEST((all[1] == LostLeaves{2, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}}));
  const auto own = lost_leaves(held, 3, {2, 4}, 4);
  BOOST_REQUIRE_EQUAL(own.size(), 1u);
  BOOST_TEST((own[0] == LostLeaves{2, {{2, 3}, {3, 4}}}));
}

BOOST_AUTO_TEST_CASE(of_the_step_that_begins_nothing_is_lost) {
  BOOST_TEST(lost_leaves({LeaseSet{8, {}}}, 2, {0, 4}, 4).empty());
  BOOST_TEST(lost_leaves({}, 7, {0, 4}, 4).empty());
}

// Workers push each leaf of a step to all slices and go on; pushes arrive in
// any order, or are lost with an epoch, which then deals the ranks anew.
BOOST_AUTO_TEST_CASE(every_lease_is_in_every_slice_once_whatever_is_lost) {
  constexpr uint32_t ranks = 5;
  constexpr uint64_t steps = 40;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    std::vector<LeaseSet> slices(3);
    std::map<std::pair<size_t, uint64_t>, int> applied;
    std::vector<std::pair<size_t, uint64_t>> under_way;
    const auto push = [&](uint64_t lease) {
      for (size_t slice = 0; slice < slices.size(); ++slice)
        under_way.emplace_back(slice, lease);
    };
    const auto deliver = [&] {
      std::swap(under_way[random() % under_way.size()], under_way.back());
      const auto [slice, lease] = under_way.back();
      under_way.pop_back();
      if (slices[slice].insert(lease))
        ++applied[{slice, lease}];
    };
    const auto begin_epoch = [&](uint64_t step) {
      under_way.clear();
      const auto workers = 1 + static_cast<uint32_t>(random() % ranks);
      for (uint32_t worker = 0; worker < workers; ++worker)
        for (const auto& lost : lost_leaves(
               slices, step, ranks_of_worker(worker, workers, ranks), ranks))
          for (auto leaf : lost.leaves)
            push(lost.step * ranks + leaf.lo);
    };
    for (uint64_t step = 0; step < steps; ++step) {
      for (uint32_t rank = 0; rank < ranks; ++rank)
        push(step * ranks + rank);
      for (auto count = random() % 20; count > 0 && !under_way.empty(); --count)
        deliver();
      if (random() % 4 == 0)
        begin_epoch(step + 1);
    }
    begin_epoch(steps);
    while (!under_way.empty())
      deliver();
    BOOST_TEST(applied.size() == slices.size() * steps * ranks);
    for (const auto& [what, count] : applied)
      BOOST_REQUIRE_EQUAL(count, 1);
    for (const auto& slice : slices)
      BOOST_TEST(steps_through(slice, ranks) == steps);
  }
}

BOOST_AUTO_TEST_SUITE_END()

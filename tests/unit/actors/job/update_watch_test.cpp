#include "actors/job/update_watch.hpp"

#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(update_watch)

namespace {

/// A slice of ten elements, the second of its variable, updated in parts.
struct Updated {
  static constexpr uint64_t count = 10;

  Updated() {
    slice.id = 4;
    slice.variable = 2;
    slice.offset = 100;
    slice.count = count;
    watch.tell([this](const Spreads& x) { told.push_back(x); });
    for (uint64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(i));
      sums.push_back(-4.0f * static_cast<float>(i));
    }
  }
  void saw(uint64_t begin, uint64_t end, uint64_t step) {
    UpdateArgs args;
    args.count = end - begin;
    args.out = values.data() + begin;
    args.gradient_sum = sums.data() + begin;
    args.samples = 2;
    watch.saw(slice, begin, step, args);
  }

  UpdateWatch watch{10, 25};
  Slice slice;
  std::vector<float> values;
  std::vector<float> sums;
  std::vector<Spreads> told;
};

} // namespace

BOOST_AUTO_TEST_CASE(each_nth_step_and_the_last_one_are_due) {
  const UpdateWatch watch{10, 25};
  for (uint64_t step = 0; step < 25; ++step)
    BOOST_TEST(watch.is_due(step) == (step == 9 || step == 19 || step == 24));
}

BOOST_FIXTURE_TEST_CASE(a_slice_in_parts_is_told_once_as_a_whole, Updated) {
  saw(0, count, 9);
  saw(6, 10, 19);
  saw(0, 1, 19);
  BOOST_TEST(told.size() == 1u);
  saw(1, 6, 19);
  BOOST_REQUIRE(told.size() == 2u);
  const auto& [whole, parts] = std::pair{told[0], told[1]};
  BOOST_TEST(whole.step == 10u);
  BOOST_TEST(parts.step == 20u);
  BOOST_TEST(parts.variable == 2u);
  BOOST_TEST(parts.begin == 100u);
  BOOST_TEST(parts.elements == count);
  BOOST_TEST(parts.values.count == count);
  BOOST_TEST(parts.values.sum == 45);
  BOOST_TEST(parts.gradient.min == -18);
  BOOST_TEST((parts.values.buckets == whole.values.buckets
              && parts.values.counts == whole.values.counts
              && parts.gradient.counts == whole.gradient.counts));
}

BOOST_FIXTURE_TEST_CASE(of_a_slice_that_others_update_too_runs_are_told,
                        Updated) {
  saw(4, 6, 9);
  saw(8, 9, 9);
  saw(2, 4, 9);
  watch.end(8); // of another step
  BOOST_TEST(told.empty());
  watch.end(9);
  watch.end(9);
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[0].begin == 102u);
  BOOST_TEST(told[0].elements == 4u);
  BOOST_TEST(told[0].values.sum == 2 + 3 + 4 + 5);
  BOOST_TEST(told[1].begin == 108u);
  BOOST_TEST(told[1].elements == 1u);
  saw(0, 2, 9); // a thread of this process was late
  watch.end(9);
  BOOST_REQUIRE(told.size() == 3u);
  BOOST_TEST(told[2].elements == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_step_that_is_taken_anew_begins_anew, Updated) {
  saw(0, 6, 9);
  saw(5, 10, 9); // cut in another way, with other members
  BOOST_TEST(told.empty());
  saw(0, 5, 9);
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].values.sum == 45);
  saw(0, 6, 19); // and broken off for good
  saw(0, 6, 24);
  saw(6, 10, 24);
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[1].step == 25u);
  BOOST_TEST(told[1].values.count == count);
}

BOOST_AUTO_TEST_SUITE_END()

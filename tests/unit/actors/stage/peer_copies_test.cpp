#include "actors/stage/peer_copies.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(peer_copies_suite)

namespace {

/// Member 0 shows slices 0 and 1, member 1 slice 2, each with peers of two
/// other groups; of those 3 and 4 have lost what they kept.
Activate lost_members() {
  Activate out;
  out.chains = {{0, {2, 0}, {4}}, {1, {2, 0}, {4}}, {2, {5, 1}, {3}}};
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_first_who_holds_it_gives_a_learner_all_that_it_keeps) {
  const auto activation = lost_members();
  for (uint32_t member = 0; member < 6; ++member) {
    const auto duties = copy_duties(activation, member);
    BOOST_TEST(duties.learns == (member == 3 || member == 4));
    const std::set<uint32_t> expected = member == 2   ? std::set<uint32_t>{4}
                                        : member == 5 ? std::set<uint32_t>{3}
                                                      : std::set<uint32_t>{};
    BOOST_TEST((duties.learners == expected), member);
  }
}

BOOST_AUTO_TEST_CASE(nobody_copies_what_is_undone) {
  auto activation = lost_members();
  activation.rollback = true;
  for (uint32_t member = 0; member < 6; ++member) {
    BOOST_TEST(!copy_duties(activation, member).learns);
    BOOST_TEST(copy_duties(activation, member).learners.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_copy_has_the_values_and_the_state_of_its_version) {
  auto options = small_job();
  options.optimizer = "adam";
  options.rule.kind = OptimizerKind::adam;
  const Job job{options, *small_data().train};
  const auto from =
    std::make_shared<ShardStore>(job, std::vector<uint32_t>{0, 1}, 7, -1);
  const auto count = job.plan.slices[1].count;
  BOOST_TEST(copy_elements(job, 1) == 3 * count);
  for (uint32_t update = 1; update <= 2; ++update) { // versions 1 and 2
    const auto target = from->begin(1);
    std::fill_n(target.values, count, 1.5f * update);
    std::fill_n(target.state, 2 * count, 0.25f * update);
    from->commit(1);
  }
  ShardStore to{job, {0, 1}, 7, -1};
  const auto copy = copy_of(job, from, 1, 1);
  BOOST_REQUIRE(copy.values.size() + copy.state.size() == 3 * count);
  std::vector<float> sent(copy.values.data(), copy.values.data() + count);
  sent.insert(sent.end(), copy.state.data(), copy.state.data() + 2 * count);
  install_copy(job, to, 1, 1, TensorView::copy(sent));
  BOOST_TEST(to.newest(1) == 1u);
  BOOST_TEST(to.oldest(1) == 1u);
  BOOST_TEST(to.newest(0) == 0u);
  BOOST_TEST(std::all_of(to.values(1, 1), to.values(1, 1) + count,
                         [](float x) { return x == 1.5f; }));
  BOOST_TEST(std::all_of(to.state(1, 1), to.state(1, 1) + 2 * count,
                         [](float x) { return x == 0.25f; }));
}

BOOST_AUTO_TEST_SUITE_END()

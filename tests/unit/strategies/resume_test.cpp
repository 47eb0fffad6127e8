#include "strategies/resume.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(resume)

BOOST_AUTO_TEST_CASE(survivors_that_differ_by_one_step_go_on_from_the_lower) {
  auto found = decide_resume({{4, 5}, {5, 6}, {4, 5}}, 5);
  BOOST_TEST(found.version == 5u);
  BOOST_TEST(!found.rollback);
}

BOOST_AUTO_TEST_CASE(a_slice_without_its_state_sends_all_back_to_the_start) {
  auto found = decide_resume({{4, 5}, {0, 0}}, 4);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.reason.find("lost its state") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(at_the_first_step_a_fresh_slice_is_as_good_as_any) {
  BOOST_TEST(!decide_resume({{0, 1}, {0, 0}}, 0).rollback);
  BOOST_TEST(!decide_resume({{0, 0}, {0, 0}}, 0).rollback);
  BOOST_TEST(decide_resume({{1, 1}, {0, 0}}, 0).rollback);
}

BOOST_AUTO_TEST_CASE(committed_steps_are_not_undone_in_silence) {
  BOOST_TEST(decide_resume({{0, 0}, {0, 0}}, 1).rollback);
  BOOST_TEST(!decide_resume({{0, 1}, {0, 1}}, 1).rollback);
}

BOOST_AUTO_TEST_CASE(replicas_go_on_from_the_newest_version_that_one_has) {
  auto found = decide_resume({6, 7, 0, 7}, 6);
  BOOST_TEST(found.version == 7u);
  BOOST_TEST(found.source == 1u);
  BOOST_TEST(found.synchronise);
  BOOST_TEST(!found.rollback);
  BOOST_TEST(!decide_resume({7, 7}, 7).synchronise);
  BOOST_TEST(!decide_resume({0, 0}, 0).synchronise);
}

BOOST_AUTO_TEST_CASE(replicas_roll_back_only_if_all_that_committed_are_gone) {
  auto found = decide_resume({0, 0}, 5);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(found.reason.find("of 5") != std::string::npos);
  BOOST_TEST(!decide_resume({0, 5}, 5).rollback);
}

BOOST_AUTO_TEST_CASE(what_shards_or_workers_have_not_finished_is_repaired) {
  // A worker has reduced step 4, of which a slice lacks pushes.
  auto found = decide_resume({{4, 5}, {3, 4}}, {{4, 5}, {3, 4}}, 4);
  BOOST_TEST(found.version == 4u);
  BOOST_TEST(!found.synchronise);
  BOOST_TEST(!found.rollback);
  // All slices have applied it, and no worker has reduced it.
  found = decide_resume({{4, 5}, {4, 5}}, {{3, 4}, {4, 4}}, 4);
  BOOST_TEST(found.version == 4u);
  BOOST_TEST(!found.rollback);
}

BOOST_AUTO_TEST_CASE(workers_take_a_version_that_one_has_and_all_slices_have) {
  auto found = decide_resume({{4, 5}, {5, 6}}, {{0, 0}, {3, 4}, {4, 5}}, 4);
  BOOST_TEST(found.version == 5u);
  BOOST_TEST(found.source == 2u);
  BOOST_TEST(found.synchronise);
  BOOST_TEST(!found.rollback);
}

BOOST_AUTO_TEST_CASE(rows_that_run_free_do_not_say_where_layers_go_on) {
  const LeaseSet acknowledged{16, {}}; // four steps of four ranks
  // A slice is behind, one ahead; a worker has taken step 5.
  const std::map<uint32_t, LeaseSet> slices{{0, {16, {18}}}, {1, {24, {}}}};
  auto found = decide_resume(slices, {{4, 5}, {5, 6}}, acknowledged, 4);
  BOOST_TEST(found.version == 6u);
  BOOST_TEST(found.source == 1u);
  BOOST_TEST(found.synchronise);
  BOOST_TEST(!found.rollback);
  // What was acknowledged of rows is gone.
  found = decide_resume({{0, {15, {17}}}}, {{4, 5}}, acknowledged, 4);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(found.reason.find("lost 1 push") != std::string::npos);
  // The layers are.
  BOOST_TEST(decide_resume(slices, {{0, 0}}, acknowledged, 4).rollback);
}

BOOST_AUTO_TEST_CASE(a_version_that_one_side_alone_has_left_is_a_rollback) {
  // All workers are new, and the slices have let go of version 0.
  auto found = decide_resume({{4, 5}, {4, 5}}, {{0, 0}, {0, 0}}, 0);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(!found.synchronise);
  // A slice has lost its state.
  BOOST_TEST(decide_resume({{4, 5}, {0, 0}}, {{4, 5}}, 0).rollback);
  // Nobody has what was committed.
  BOOST_TEST(decide_resume({{4, 5}}, {{4, 4}}, 5).rollback);
  // A newcomer's version 0 is of no use to who is a step further.
  BOOST_TEST(!decide_resume({{0, 1}}, {{0, 0}, {0, 1}}, 0).rollback);
}

BOOST_AUTO_TEST_SUITE_END()

#include "strategies/resume.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <utility>
#include <vector>

using namespace troupe;

namespace resuming {
namespace {

Resume of_slices(std::vector<Restorable> slices, uint64_t committed) {
  SealedState sealed;
  sealed.slices = std::move(slices);
  sealed.committed = committed;
  return decide_resume(sealed, ResumeMode::slices);
}

Resume of_replicas(const std::vector<uint64_t>& versions, uint64_t committed) {
  SealedState sealed;
  for (auto version : versions)
    sealed.replicas.push_back({version, version});
  sealed.committed = committed;
  return decide_resume(sealed, ResumeMode::replicas);
}

/// Chains of one.
Resume of_both(std::vector<Restorable> slices, std::vector<Restorable> replicas,
               uint64_t committed) {
  SealedState sealed;
  sealed.slices = std::move(slices);
  sealed.replicas = std::move(replicas);
  sealed.committed = committed;
  return decide_resume(sealed, ResumeMode::both);
}

Resume of_free_rows(std::map<uint32_t, LeaseSet> leases,
                    std::vector<Restorable> replicas,
                    const LeaseSet& acknowledged, uint64_t committed) {
  SealedState sealed;
  sealed.promised = std::move(leases);
  sealed.replicas = std::move(replicas);
  sealed.leases.acknowledged = acknowledged;
  sealed.committed = committed;
  return decide_resume(sealed, ResumeMode::free_rows);
}

} // namespace

BOOST_AUTO_TEST_SUITE(resume)

BOOST_AUTO_TEST_CASE(survivors_that_differ_by_one_step_go_on_from_the_lower) {
  auto found = of_slices({{4, 5}, {5, 6}, {4, 5}}, 5);
  BOOST_TEST(found.message.version == 5u);
  BOOST_TEST(!found.rolls_back());
}

BOOST_AUTO_TEST_CASE(a_slice_without_its_state_sends_all_back_to_the_start) {
  auto found = of_slices({{4, 5}, {0, 0}}, 4);
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.reason.find("lost its state") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(at_the_first_step_a_fresh_slice_is_as_good_as_any) {
  BOOST_TEST(!of_slices({{0, 1}, {0, 0}}, 0).rolls_back());
  BOOST_TEST(!of_slices({{0, 0}, {0, 0}}, 0).rolls_back());
  BOOST_TEST(of_slices({{1, 1}, {0, 0}}, 0).rolls_back());
}

BOOST_AUTO_TEST_CASE(committed_steps_are_not_undone_in_silence) {
  BOOST_TEST(of_slices({{0, 0}, {0, 0}}, 1).rolls_back());
  BOOST_TEST(!of_slices({{0, 1}, {0, 1}}, 1).rolls_back());
}

BOOST_AUTO_TEST_CASE(a_decision_that_nobody_knows_any_more_is_a_rollback) {
  SealedState sealed;
  sealed.slices = {{4, 5}, {5, 6}};
  sealed.committed = 5;
  sealed.undecided = true;
  const auto found = decide_resume(sealed, ResumeMode::slices);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(found.reason.find("of step 5 is lost") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(replicas_go_on_from_the_newest_version_that_one_has) {
  auto found = of_replicas({6, 7, 0, 7}, 6);
  BOOST_TEST(found.message.version == 7u);
  BOOST_TEST(found.message.source == 1u);
  BOOST_TEST(found.message.synchronise);
  BOOST_TEST(!found.rolls_back());
  BOOST_TEST(!of_replicas({7, 7}, 7).message.synchronise);
  BOOST_TEST(!of_replicas({0, 0}, 0).message.synchronise);
}

BOOST_AUTO_TEST_CASE(replicas_roll_back_only_if_all_that_committed_are_gone) {
  auto found = of_replicas({0, 0}, 5);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(found.reason.find("of 5") != std::string::npos);
  BOOST_TEST(!of_replicas({0, 5}, 5).rolls_back());
  // Then the one that has most of it is where the others take that from.
  found = of_replicas({0, 3}, 5);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 3u);
  BOOST_TEST(found.message.source == 1u);
}

BOOST_AUTO_TEST_CASE(what_shards_or_workers_have_not_finished_is_repaired) {
  // A worker has reduced step 4, of which a slice lacks pushes.
  auto found = of_both({{4, 5}, {3, 4}}, {{4, 5}, {3, 4}}, 4);
  BOOST_TEST(found.message.version == 4u);
  BOOST_TEST(!found.message.synchronise);
  BOOST_TEST(!found.rolls_back());
  // All slices have applied it, and no worker has reduced it.
  found = of_both({{4, 5}, {4, 5}}, {{3, 4}, {4, 4}}, 4);
  BOOST_TEST(found.message.version == 4u);
  BOOST_TEST(!found.rolls_back());
}

BOOST_AUTO_TEST_CASE(workers_take_a_version_that_one_has_and_all_slices_have) {
  auto found = of_both({{4, 5}, {5, 6}}, {{0, 0}, {3, 4}, {4, 5}}, 4);
  BOOST_TEST(found.message.version == 5u);
  BOOST_TEST(found.message.source == 2u);
  BOOST_TEST(found.message.synchronise);
  BOOST_TEST(!found.rolls_back());
}

// docs/reliability.md, 105418: the head may die before its tail has that, and
// workers keep no older layers than those that an epoch begins with.
BOOST_AUTO_TEST_CASE(beside_layers_what_a_head_alone_has_does_not_count) {
  SealedState sealed;
  sealed.slices = {{5, 6}, {5, 6}};
  sealed.replicas = {{5, 6}, {4, 5}};
  sealed.committed = sealed.everywhere = 5;
  auto found = decide_resume(sealed, ResumeMode::both);
  BOOST_TEST(found.message.version == 5u);
  BOOST_TEST(!found.message.synchronise);
  // Unless a replica that was away lacks what was committed without it.
  sealed.everywhere = 4;
  found = decide_resume(sealed, ResumeMode::both);
  BOOST_TEST(found.message.version == 6u);
  BOOST_TEST(found.message.synchronise);
  BOOST_TEST(!found.rolls_back());
}

BOOST_AUTO_TEST_CASE(rows_that_run_free_do_not_say_where_layers_go_on) {
  const LeaseSet acknowledged{16, {}}; // four steps of four ranks
  // A slice is behind, one ahead; a worker has taken step 5.
  const std::map<uint32_t, LeaseSet> slices{{0, {16, {18}}}, {1, {24, {}}}};
  auto found = of_free_rows(slices, {{4, 5}, {5, 6}}, acknowledged, 4);
  BOOST_TEST(found.message.version == 6u);
  BOOST_TEST(found.message.source == 1u);
  BOOST_TEST(found.message.synchronise);
  BOOST_TEST(!found.rolls_back());
  // What was acknowledged of rows is gone.
  found = of_free_rows({{0, {15, {17}}}}, {{4, 5}}, acknowledged, 4);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(found.reason.find("lost 1 push") != std::string::npos);
  // The layers are: nobody has an older version of rows for the newest of them.
  found = of_free_rows(slices, {{0, 0}, {3, 3}}, acknowledged, 4);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(!found.message.synchronise);
}

BOOST_AUTO_TEST_CASE(a_version_that_one_side_alone_has_left_is_a_rollback) {
  // All workers are new, and the slices have let go of version 0.
  auto found = of_both({{4, 5}, {4, 5}}, {{0, 0}, {0, 0}}, 0);
  BOOST_TEST(found.rolls_back());
  BOOST_TEST(found.message.version == 0u);
  BOOST_TEST(!found.message.synchronise);
  // A slice has lost its state.
  BOOST_TEST(of_both({{4, 5}, {0, 0}}, {{4, 5}}, 0).rolls_back());
  // Nobody has what was committed.
  BOOST_TEST(of_both({{4, 5}}, {{4, 4}}, 5).rolls_back());
  // A newcomer's version 0 is of no use to who is a step further.
  BOOST_TEST(!of_both({{0, 1}}, {{0, 0}, {0, 1}}, 0).rolls_back());
}

BOOST_AUTO_TEST_CASE(leases_that_a_tail_lacks_and_is_given_are_not_lost) {
  SealedState sealed;
  sealed.applied = {{0, {8, {10}}}, {1, {11, {}}}};
  sealed.promised = {{0, {11, {}}}, {1, {11, {}}}};
  sealed.leases.acknowledged = LeaseSet{11, {}};
  auto found = decide_resume(sealed, ResumeMode::leases);
  BOOST_TEST((found.verdict == ResumeVerdict::go_on));
  BOOST_TEST(found.lost_leases == 0u);
  // Its head has died as well, and a new one knows lease 9 alone.
  sealed.promised[0] = LeaseSet{8, {9}};
  found = decide_resume(sealed, ResumeMode::leases);
  BOOST_TEST((found.verdict == ResumeVerdict::compute_again));
  BOOST_TEST(found.lost_leases == 1u); // number 8; the tail has 10
  BOOST_TEST(found.reason.find("lost 1 lease") != std::string::npos);
  // A slice may have what was not acknowledged.
  sealed.leases.acknowledged = LeaseSet{8, {10}};
  BOOST_TEST(decide_resume(sealed, ResumeMode::leases).lost_leases == 0u);
}

BOOST_AUTO_TEST_CASE(of_what_another_coordinator_counted_the_number_is_known) {
  SealedState sealed;
  sealed.applied = {{0, {9, {}}}, {1, {20, {}}}};
  sealed.promised = {{0, {15, {}}}, {1, {20, {}}}};
  sealed.leases.counted = 24;
  auto found = decide_resume(sealed, ResumeMode::leases);
  BOOST_TEST((found.verdict == ResumeVerdict::compute_again));
  BOOST_TEST(found.lost_leases == 9u);
  sealed.leases.counted = 12;
  BOOST_TEST(decide_resume(sealed, ResumeMode::leases).lost_leases == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace resuming

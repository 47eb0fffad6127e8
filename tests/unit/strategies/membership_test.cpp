#include "strategies/membership.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(membership)

using State = Membership::State;

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};
constexpr RoleId shard0{RoleKind::shard, 0};

Membership::Options two_workers() {
  Membership::Options out;
  out.roles = {worker0, worker1};
  return out;
}

/// Returns a membership of two workers whose epoch 1 is proposed at 0 ms.
Membership sealing() {
  Membership out{two_workers(), 0};
  out.join(worker0, 1, 0);
  out.join(worker1, 1, 0);
  return out;
}

Membership active() {
  auto out = sealing();
  out.sealed(worker0, 1, 1, 0);
  out.sealed(worker1, 1, 1, 0);
  return out;
}

/// Returns the only action, which must be an `Action`.
template <class Action>
Action only(const Membership::Actions& actions) {
  BOOST_REQUIRE(actions.size() == 1u);
  BOOST_REQUIRE(std::holds_alternative<Action>(actions.front()));
  return std::get<Action>(actions.front());
}

} // namespace

BOOST_AUTO_TEST_CASE(roles_print_as_users_write_them) {
  BOOST_TEST(to_string(worker1) == "worker:1");
  BOOST_TEST(to_string(shard0) == "ps:0");
  BOOST_TEST(to_string(RoleId{RoleKind::coordinator, 0}) == "coordinator");
  BOOST_TEST(to_string(RoleId{RoleKind::evaluator, 0}) == "evaluator:0");
}

BOOST_AUTO_TEST_CASE(an_epoch_is_proposed_when_every_role_is_present) {
  Membership it{two_workers(), 0};
  BOOST_TEST((it.state() == State::forming));
  BOOST_TEST((it.absent() == std::vector<RoleId>{worker0, worker1}));
  BOOST_TEST(it.join(worker1, 1, 10).empty());
  BOOST_TEST((it.absent() == std::vector<RoleId>{worker0}));
  auto proposal = only<Membership::Propose>(it.join(worker0, 1, 20));
  BOOST_TEST(proposal.epoch == 1u);
  BOOST_TEST((proposal.members == std::vector<RoleId>{worker0, worker1}));
  BOOST_TEST((it.state() == State::sealing));
  BOOST_TEST(it.epoch() == 1u);
}

BOOST_AUTO_TEST_CASE(the_first_epoch_waits_for_what_it_needs_beside_roles) {
  bool may = false;
  auto options = two_workers();
  options.may_begin = [&] { return may; };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  BOOST_TEST(it.join(worker1, 1, 100).empty());
  BOOST_TEST(it.tick(200).empty());
  may = true;
  BOOST_TEST(only<Membership::Propose>(it.tick(300)).epoch == 1u);
  BOOST_TEST(it.tick(400).empty());
  may = false; // later ones do not wait
  it.sealed(worker0, 1, 1, 500);
  it.sealed(worker1, 1, 1, 500);
  it.lost(worker1, 1, 600);
  BOOST_TEST(only<Membership::Propose>(it.join(worker1, 2, 700)).epoch == 2u);
}

BOOST_AUTO_TEST_CASE(
  the_first_epoch_begins_past_the_join_deadline_all_the_same) {
  auto options = two_workers();
  options.may_begin = [] { return false; };
  options.join_deadline_ms = 1'000;
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 100);
  BOOST_TEST(it.tick(1'099).empty());
  BOOST_TEST(only<Membership::Propose>(it.tick(1'100)).epoch == 1u);
}

BOOST_AUTO_TEST_CASE(an_epoch_is_active_when_all_have_sealed) {
  // PROTOCOL 14.
  auto it = sealing();
  BOOST_TEST(it.sealed(worker0, 1, 1, 5).empty());
  BOOST_TEST(it.sealed(worker0, 1, 1, 6).empty());
  BOOST_TEST((it.state() == State::sealing));
  auto decision = only<Membership::Activate>(it.sealed(worker1, 1, 1, 7));
  BOOST_TEST(decision.epoch == 1u);
  BOOST_TEST((it.state() == State::active));
}

BOOST_AUTO_TEST_CASE(a_loss_ends_the_epoch_until_the_role_is_replaced) {
  auto it = active();
  BOOST_TEST(it.lost(worker1, 1, 50).empty());
  BOOST_TEST((it.state() == State::forming));
  auto proposal = only<Membership::Propose>(it.join(worker1, 2, 60));
  BOOST_TEST(proposal.epoch == 2u);
}

BOOST_AUTO_TEST_CASE(a_newer_incarnation_counts_as_the_loss_of_the_older) {
  auto it = active();
  BOOST_TEST(only<Membership::Propose>(it.join(worker1, 2, 60)).epoch == 2u);
  BOOST_TEST(it.lost(worker1, 1, 61).empty()); // news of the dead: too late
  BOOST_TEST((it.state() == State::sealing));
}

BOOST_AUTO_TEST_CASE(a_late_copy_of_a_request_brings_nobody_back) {
  // Messages are duplicated and reordered: see the failure model.
  auto it = active();
  BOOST_TEST(it.join(worker1, 1, 1).empty());
  BOOST_TEST((it.state() == State::active));
  it.lost(worker1, 1, 2);
  BOOST_TEST(it.is_gone(worker1, 1));
  BOOST_TEST(!it.is_gone(worker1, 2));
  BOOST_TEST(!it.is_gone(worker0, 1));
  BOOST_TEST(it.join(worker1, 1, 3).empty());
  BOOST_TEST((it.absent() == std::vector<RoleId>{worker1}));
  it.join(worker1, 3, 4);
  BOOST_TEST(it.join(worker1, 2, 5).empty());
  BOOST_TEST(it.epoch() == 2u);
}

// docs/reliability.md, 19654 and 5518: the first replica to come back began an
// epoch alone, without what the other one had acknowledged.
BOOST_AUTO_TEST_CASE(an_epoch_does_not_begin_without_who_is_awaited) {
  auto options = two_workers();
  options.viable = [](const std::set<RoleId>&) { return true; };
  options.awaited = [] { return std::set<RoleId>{worker1}; };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 0);
  it.sealed(worker0, 1, 1, 0);
  it.sealed(worker1, 1, 1, 0);
  BOOST_TEST((it.state() == State::active)); // it is there
  only<Membership::Propose>(it.lost(worker1, 1, 50));
  const auto await = only<Membership::Await>(it.sealed(worker0, 1, 2, 60));
  BOOST_TEST((await.roles == std::vector<RoleId>{worker1}));
  BOOST_TEST((it.state() == State::forming));
  BOOST_TEST(it.tick(60 + 29'999).empty());
  auto late = it;
  const auto fail = only<Membership::Fail>(late.tick(60 + 30'000));
  BOOST_TEST(fail.reason.find("worker:1 did not join again") == 0u);
  only<Membership::Propose>(it.join(worker1, 2, 70));
  it.sealed(worker0, 1, 3, 80);
  only<Membership::Activate>(it.sealed(worker1, 2, 3, 90));
}

BOOST_AUTO_TEST_CASE(who_is_dead_with_what_it_held_is_not_awaited) {
  auto options = two_workers();
  options.viable = [](const std::set<RoleId>&) { return true; };
  options.awaited = [] { return std::set<RoleId>{worker1}; };
  options.epoch = 1; // of another coordinator
  Membership it{options, 0};
  BOOST_TEST(it.died(worker0, 0).empty()); // and is there again
  only<Membership::Propose>(it.join(worker0, 1, 0));
  BOOST_TEST(it.died(worker0, 0).empty()); // a late word of that
  only<Membership::Await>(it.sealed(worker0, 1, 2, 10));
  auto early = it;
  only<Membership::Propose>(it.died(worker1, 20));
  BOOST_TEST(it.died(worker1, 30).empty());
  only<Membership::Activate>(it.sealed(worker0, 1, 3, 40));
  // One that came back holds what it is given.
  only<Membership::Propose>(early.join(worker1, 1, 20));
  early.lost(worker1, 1, 30);
  only<Membership::Await>(early.sealed(worker0, 1, 4, 40));
}

BOOST_AUTO_TEST_CASE(a_role_outside_the_plan_is_ignored) {
  auto it = sealing();
  BOOST_TEST(it.join(shard0, 1, 1).empty());
  BOOST_TEST(it.sealed(shard0, 1, 1, 1).empty());
  BOOST_TEST(it.lost(shard0, 1, 1).empty());
  BOOST_TEST((it.state() == State::sealing));
}

BOOST_AUTO_TEST_CASE(a_death_while_sealing_starts_over) {
  auto it = sealing();
  it.sealed(worker0, 1, 1, 1);
  it.lost(worker1, 1, 2);
  BOOST_TEST((it.state() == State::forming));
  BOOST_TEST(only<Membership::Propose>(it.join(worker1, 2, 3)).epoch == 2u);
  // Who sealed epoch 1 has to seal epoch 2 as well.
  BOOST_TEST(it.sealed(worker1, 2, 2, 4).empty());
  BOOST_TEST(only<Membership::Activate>(it.sealed(worker0, 1, 2, 5)).epoch
             == 2u);
}

BOOST_AUTO_TEST_CASE(a_proposal_says_why_it_is_made_and_its_epoch_why_it_came) {
  auto it = sealing();
  it.lost(worker1, 1, 1);
  auto first = only<Membership::Propose>(it.join(worker1, 2, 2));
  BOOST_TEST(first.cause == "the run begins"); // no epoch has lasted yet
  it.sealed(worker0, 1, first.epoch, 3);
  auto began =
    only<Membership::Activate>(it.sealed(worker1, 2, first.epoch, 3));
  BOOST_TEST(began.cause == "the run begins");
  it.lost(worker1, 2, 4);
  auto joined = only<Membership::Propose>(it.join(worker1, 3, 5));
  BOOST_TEST(joined.cause == "worker:1 has joined");
  it.sealed(worker0, 1, joined.epoch, 6);
  began = only<Membership::Activate>(it.sealed(worker1, 3, joined.epoch, 6));
  BOOST_TEST(began.cause == "worker:1 has joined");
  auto left = only<Membership::Propose>(it.dismiss(worker1, 7));
  BOOST_TEST(left.cause == "worker:1 has left");
}

BOOST_AUTO_TEST_CASE(who_is_lost_or_does_not_seal_is_why_the_next_epoch_comes) {
  auto options = two_workers();
  options.viable = [](const std::set<RoleId>&) { return true; };
  options.epoch = 6;
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 0);
  it.sealed(worker0, 1, it.epoch(), 1);
  auto began = only<Membership::Activate>(it.sealed(worker1, 1, it.epoch(), 1));
  BOOST_TEST(began.cause == "another coordinator leads");
  auto lost = it;
  BOOST_TEST(only<Membership::Propose>(lost.lost(worker1, 1, 2)).cause
             == "worker:1 was lost");
  only<Membership::Propose>(it.renew("a link is cut", 2));
  it.sealed(worker0, 1, it.epoch(), 3);
  const auto late = it.tick(1'000'000);
  BOOST_TEST_REQUIRE(late.size() == 2u);
  BOOST_TEST(std::get<Membership::Propose>(late.back()).cause
             == std::get<Membership::LeaveOut>(late.front()).reason);
}

BOOST_AUTO_TEST_CASE(an_active_epoch_is_renewed_with_the_same_members) {
  auto membership = active();
  auto propose =
    only<Membership::Propose>(membership.renew("a link is cut", 5));
  BOOST_TEST(propose.epoch == 2u);
  BOOST_TEST(propose.cause == "a link is cut");
  BOOST_TEST(propose.members.size() == 2u);
  BOOST_TEST((membership.state() == State::sealing));
  BOOST_TEST(membership.renew("a link is cut", 6).empty());
  membership.lost(worker0, 1, 7);
  BOOST_TEST(membership.renew("a link is cut", 8).empty());
}

BOOST_AUTO_TEST_CASE(a_late_seal_of_an_older_epoch_is_ignored) {
  // I4: nothing from an older epoch has effect.
  auto it = sealing();
  it.lost(worker1, 1, 1);
  it.join(worker1, 2, 2);
  BOOST_TEST(it.sealed(worker0, 1, 1, 3).empty());
  BOOST_TEST(it.sealed(worker1, 1, 1, 3).empty());
  BOOST_TEST(it.sealed(worker1, 1, 2, 3).empty()); // nor an older incarnation
  BOOST_TEST(it.sealed(worker1, 2, 2, 4).empty());
  BOOST_TEST((it.state() == State::sealing));
}

BOOST_AUTO_TEST_CASE(who_does_not_seal_in_time_is_left_out) {
  auto it = sealing();
  it.sealed(worker0, 1, 1, 100);
  BOOST_TEST(it.tick(4999).empty());
  auto out = only<Membership::LeaveOut>(it.tick(5000));
  BOOST_TEST((out.role == worker1));
  BOOST_TEST(out.incarnation == 1u);
  BOOST_TEST(out.reason == "worker:1 did not seal epoch 1 within 5 s");
  BOOST_TEST((it.state() == State::forming));
  BOOST_TEST(it.sealed(worker1, 1, 1, 5001).empty());
  BOOST_TEST(it.join(worker1, 1, 5002).empty()); // it must be replaced
  BOOST_TEST(only<Membership::Propose>(it.join(worker1, 2, 6000)).epoch == 2u);
}

// Symptom: replicas whose passes took 6 s were left out when one of them died,
// and so were their successors, until the restarts were spent. Cause: who seals
// when its pass is over had 5 s, whether it gave signs of life or not.
BOOST_AUTO_TEST_CASE(who_is_heard_of_may_finish_what_it_computes) {
  uint64_t silent = 4999;
  auto options = two_workers();
  options.silent_ms = [&](RoleId role) {
    return role == worker1 ? silent : 9999;
  };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 0);
  it.sealed(worker0, 1, 1, 100); // who has sealed may be silent
  auto late = it;
  auto stopped = it;
  BOOST_TEST(it.tick(5000).empty());
  BOOST_TEST(it.tick(59'999).empty());
  only<Membership::Activate>(it.sealed(worker1, 1, 1, 59'999));
  BOOST_TEST(only<Membership::LeaveOut>(late.tick(60'000)).reason
             == "worker:1 did not seal epoch 1 within 60 s");
  BOOST_TEST(stopped.tick(5000).empty());
  silent = 5000;
  BOOST_TEST(only<Membership::LeaveOut>(stopped.tick(7500)).reason
             == "worker:1 did not seal epoch 1 within 5 s");
}

BOOST_AUTO_TEST_CASE(other_proposals_give_who_is_busy_no_more_time) {
  auto options = two_workers();
  options.silent_ms = [](RoleId) { return uint64_t{0}; };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 0);
  uint64_t incarnation = 1;
  for (uint64_t now = 20'000; now < 60'000; now += 20'000) {
    it.lost(worker0, incarnation++, now);
    BOOST_TEST(only<Membership::Propose>(it.join(worker0, incarnation, now))
                 .members.size()
               == 2u);
  }
  BOOST_TEST(it.tick(59'999).empty());
  BOOST_TEST((only<Membership::LeaveOut>(it.tick(60'000)).role == worker1));
}

BOOST_AUTO_TEST_CASE(who_follows_a_busy_one_has_all_the_time_again) {
  auto options = two_workers();
  options.silent_ms = [](RoleId) { return uint64_t{0}; };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 1, 0);
  it.sealed(worker0, 1, 1, 100);
  it.lost(worker1, 1, 30'000);
  only<Membership::Propose>(it.join(worker1, 2, 31'000));
  it.sealed(worker0, 1, 2, 31'000);
  BOOST_TEST(it.tick(90'999).empty());
  BOOST_TEST((only<Membership::LeaveOut>(it.tick(91'000)).role == worker1));
}

BOOST_AUTO_TEST_CASE(everybody_may_be_left_out_at_once) {
  auto it = sealing();
  BOOST_TEST(it.tick(5000).size() == 2u);
  BOOST_TEST(it.absent().size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_role_that_never_joins_ends_the_job_by_name) {
  // I11.
  Membership it{two_workers(), 1000};
  it.join(worker0, 1, 1000);
  BOOST_TEST(it.tick(30'999).empty());
  auto failure = only<Membership::Fail>(it.tick(31'000));
  BOOST_TEST(failure.reason
             == "worker:1 did not join within 30 s of the last of 1 of 2 roles "
                "that did: look at the last output there, start what is "
                "missing with `troupe role worker:1`, or give more time with "
                "--join-deadline-ms");
}

BOOST_AUTO_TEST_CASE(nobody_is_told_to_start_what_a_launcher_starts) {
  auto options = two_workers();
  options.starts_roles = [] { return true; };
  Membership it{options, 0};
  const auto failure = only<Membership::Fail>(it.tick(30'000));
  BOOST_TEST(
    failure.reason
    == "worker:0, worker:1 did not join within 30 s: look at their last "
       "output above and in --log-dir, or give more time with "
       "--join-deadline-ms");
  BOOST_TEST((it.state() == State::failed));
  BOOST_TEST(it.tick(99'000).empty()); // said once
  BOOST_TEST(it.join(worker1, 1, 99'000).empty());
  BOOST_TEST((it.state() == State::failed));
}

// Symptom: a hundred workers were given up after 30 s, while one after the
// other came. Cause: the deadline counted from the beginning.
BOOST_AUTO_TEST_CASE(the_deadline_counts_from_the_last_arrival) {
  Membership::Options options;
  for (uint32_t i = 0; i < 10; ++i)
    options.roles.push_back({RoleKind::worker, i});
  options.join_deadline_ms = 1000;
  Membership it{options, 0};
  for (uint32_t i = 0; i < 8; ++i) {
    BOOST_TEST(it.tick(900 * i).empty());
    it.join({RoleKind::worker, i}, 1, 900 * i);
  }
  BOOST_TEST(it.present() == 8u);
  // One that comes again and again is none.
  it.lost({RoleKind::worker, 0}, 1, 6'500);
  it.join({RoleKind::worker, 0}, 2, 6'600);
  BOOST_TEST(it.tick(7'299).empty());
  const auto failure = only<Membership::Fail>(it.tick(7'300));
  BOOST_TEST(failure.reason.starts_with(
    "worker:8, worker:9 did not join within 1 s of the last of 8 of 10 roles"));
}

BOOST_AUTO_TEST_CASE(roles_in_a_row_are_named_by_both_ends) {
  std::vector<RoleId> roles{{RoleKind::shard, 0}};
  for (uint32_t i = 12; i < 60; ++i)
    roles.push_back({RoleKind::worker, i});
  roles.push_back({RoleKind::worker, 70});
  BOOST_TEST(to_string(roles) == "ps:0, worker:12 to worker:59, worker:70");
  BOOST_TEST(to_string(std::vector<RoleId>{}).empty());
}

BOOST_AUTO_TEST_CASE(all_that_never_joined_are_named) {
  auto options = two_workers();
  options.join_deadline_ms = 1500;
  Membership it{options, 0};
  auto failure = only<Membership::Fail>(it.tick(1500));
  BOOST_TEST(failure.reason.starts_with(
    "worker:0, worker:1 did not join within 1500 ms: "));
}

BOOST_AUTO_TEST_CASE(a_role_that_does_not_come_back_ends_the_job) {
  auto it = active();
  BOOST_TEST(it.tick(1'000'000).empty()); // an active epoch has no deadline
  it.lost(worker1, 1, 1'000'000);
  BOOST_TEST(it.tick(1'029'999).empty());
  auto failure = only<Membership::Fail>(it.tick(1'030'000));
  BOOST_TEST(
    failure.reason.starts_with("worker:1 did not join again within 30 s: "));
}

BOOST_AUTO_TEST_CASE(the_loss_of_another_role_gives_no_extra_time) {
  auto it = active();
  it.lost(worker1, 1, 0);
  it.lost(worker0, 1, 20'000);
  auto failure = only<Membership::Fail>(it.tick(30'000));
  BOOST_TEST(
    failure.reason.starts_with("worker:0, worker:1 did not join again"));
}

BOOST_AUTO_TEST_CASE(survivors_go_on_without_the_dead_where_they_can) {
  auto options = two_workers();
  options.viable = [](const std::set<RoleId>& present) {
    return !present.empty();
  };
  Membership it{options, 0};
  BOOST_TEST(it.join(worker0, 1, 0).empty()); // the first epoch needs all
  only<Membership::Propose>(it.join(worker1, 2, 0));
  it.sealed(worker0, 1, 1, 0);
  it.sealed(worker1, 2, 1, 0);
  auto without = only<Membership::Propose>(it.lost(worker1, 2, 5));
  BOOST_TEST((without.members == std::vector<RoleId>{worker0}));
  only<Membership::Activate>(it.sealed(worker0, 1, without.epoch, 6));
  // One that was away for long is no reason to give up later.
  BOOST_TEST(it.tick(500'000).empty());
  auto with = only<Membership::Propose>(it.join(worker1, 3, 500'000));
  BOOST_TEST(with.members.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_role_may_be_added_and_dismissed) {
  auto options = two_workers();
  options.viable = [](const std::set<RoleId>& present) {
    return !present.empty();
  };
  Membership it{options, 0};
  it.join(worker0, 1, 0);
  it.join(worker1, 2, 0);
  it.sealed(worker0, 1, 1, 0);
  it.sealed(worker1, 2, 1, 0);
  BOOST_TEST(it.join(shard0, 3, 1).empty()); // nobody expects it
  it.expect(shard0);
  BOOST_TEST(only<Membership::Propose>(it.join(shard0, 3, 1)).members.size()
             == 3u);
  BOOST_TEST(only<Membership::Propose>(it.dismiss(worker1, 2)).members.size()
             == 2u);
  BOOST_TEST(it.join(worker1, 9, 3).empty());
}

BOOST_AUTO_TEST_CASE(a_first_epoch_does_not_wait_for_who_is_dismissed) {
  Membership it{two_workers(), 0};
  BOOST_TEST(it.join(worker0, 1, 0).empty());
  const auto first = only<Membership::Propose>(it.dismiss(worker1, 10));
  BOOST_TEST((first.members == std::vector<RoleId>{worker0}));
  only<Membership::Activate>(it.sealed(worker0, 1, 1, 11));
  it.expect(worker1); // it comes after all
  BOOST_TEST(only<Membership::Propose>(it.join(worker1, 2, 20)).members.size()
             == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

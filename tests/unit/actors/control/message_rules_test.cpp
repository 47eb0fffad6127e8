#include "actors/control/actor_node.hpp"
#include "actors/control/message_rules.hpp"
#include "actors/wire/messages.hpp"
#include "actors/wire/messages/voting.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(message_rules)

namespace {

const auto worker_1 = *parse_member_name("worker:1");
const auto shard_0 = *parse_member_name("ps:0");
const auto sharded_1 = *parse_member_name("sharded:1");

template <class Message>
bool may(const MemberName& who, Message said) {
  init_actor_types();
  return refusal(who, caf::make_message(std::move(said))).empty();
}

} // namespace

BOOST_AUTO_TEST_CASE(a_sharded_member_speaks_for_both_of_its_roles) {
  for (const auto own :
       {RoleId{RoleKind::worker, 1}, RoleId{RoleKind::shard, 1}}) {
    BOOST_TEST(may(sharded_1, Hello{own}));
    BOOST_TEST(may(sharded_1, Sealed{{}, own, 1, {}, 0, {}}));
    BOOST_TEST(may(sharded_1, Applied{{}, own, 1, 0}));
  }
  for (const auto other :
       {RoleId{RoleKind::worker, 0}, RoleId{RoleKind::shard, 2},
        RoleId{RoleKind::stage, 1}, RoleId{RoleKind::coordinator, 0}}) {
    BOOST_TEST(!may(sharded_1, Hello{other}));
    BOOST_TEST(!may(sharded_1, Sealed{{}, other, 1, {}, 0, {}}));
  }
  BOOST_TEST(!may(sharded_1, Propose{}));
}

BOOST_AUTO_TEST_CASE(a_role_speaks_for_itself_and_for_nobody_else) {
  const RoleId own{RoleKind::worker, 1};
  for (const auto& other :
       {RoleId{RoleKind::worker, 0}, RoleId{RoleKind::shard, 1},
        RoleId{RoleKind::coordinator, 0}}) {
    Join join;
    join.role = own;
    BOOST_TEST(may(worker_1, join));
    join.role = other;
    BOOST_TEST(!may(worker_1, join));
    BOOST_TEST(may(worker_1, Hello{own}));
    BOOST_TEST(!may(worker_1, Hello{other}));
    BOOST_TEST(!may(worker_1, Hello{other, message_revision, true}));
    BOOST_TEST(may(worker_1, Sealed{{}, own, 1, {}, 0, {}}));
    BOOST_TEST(!may(worker_1, Sealed{{}, other, 1, {}, 0, {}}));
    BOOST_TEST(!may(worker_1, LeafReport{{}, other, 1, {}, 0, false}));
    BOOST_TEST(!may(worker_1, Trouble{1, other, "it is broken"}));
    BOOST_TEST(!may(worker_1, MetricsReport{other, 0, {}}));
    BOOST_TEST(!may(worker_1, LeaveRequest{1, other, "terminated"}));
  }
}

BOOST_AUTO_TEST_CASE(only_the_coordinator_says_what_the_coordinator_says) {
  for (const auto& who : {worker_1, shard_0, voter_name, operator_name,
                          supervisor_name, MemberName{}}) {
    BOOST_TEST(!may(who, Propose{}));
    BOOST_TEST(!may(who, Activate{}));
    BOOST_TEST(!may(who, Finish{}));
    BOOST_TEST(!may(who, ArmFault{}));
    BOOST_TEST(!may(who, Replanned{}));
    BOOST_TEST(!may(who, JobInfo{}));
    BOOST_TEST(!may(who, AppendLog{}));
    BOOST_TEST(!may(who, AskVote{}));
  }
  BOOST_TEST(may(coordinator_name, Propose{}));
  BOOST_TEST(may(coordinator_name, RowPull{})); // of the evaluator beside it
  BOOST_TEST(!may(worker_1, RowPull{}));        // on links
  BOOST_TEST(may(coordinator_name, AppendLog{}));
  BOOST_TEST(may(coordinator_name, Replanned{}));
}

BOOST_AUTO_TEST_CASE(only_a_supervisor_says_what_has_become_of_roles) {
  for (const auto& who : {worker_1, shard_0, voter_name, operator_name}) {
    BOOST_TEST(!may(who, RoleGone{}));
    BOOST_TEST(!may(who, Remains{}));
  }
  BOOST_TEST(may(supervisor_name, RoleGone{}));
  BOOST_TEST(may(supervisor_name, Remains{}));
}

BOOST_AUTO_TEST_CASE(only_an_operator_changes_a_job) {
  for (const auto& who :
       {worker_1, shard_0, voter_name, coordinator_name, MemberName{}}) {
    BOOST_TEST(!may(who, SwitchConsistency{"async"}));
    BOOST_TEST(!may(who, ReshapeJob{"workers add 1"}));
    BOOST_TEST(!may(who, InjectFault{}));
    // A coordinator passes it on.
    BOOST_TEST(may(who, StopRequest{"because"}) == (who == coordinator_name));
    BOOST_TEST(!may(who, Attach{false}));
    BOOST_TEST(!may(who, RoleDied{{RoleKind::worker, 0}, "gone"}));
  }
  BOOST_TEST(may(operator_name, SwitchConsistency{"async"}));
  BOOST_TEST(may(operator_name, Attach{false}));
  BOOST_TEST(!may(operator_name, Attach{true}));
  BOOST_TEST(may(supervisor_name, Attach{true}));
  BOOST_TEST(!may(operator_name, RoleDied{{RoleKind::worker, 0}, "gone"}));
}

BOOST_AUTO_TEST_CASE(an_evaluator_watches_for_the_end_of_the_run) {
  const auto evaluator = name_of(RoleId{RoleKind::evaluator, 0});
  BOOST_TEST(may(evaluator, Attach{false}));
  BOOST_TEST(may(evaluator, Detach{}));
  BOOST_TEST(!may(evaluator, Attach{true}));
  BOOST_TEST(!may(evaluator, StopRequest{"because"}));
}

BOOST_AUTO_TEST_CASE(who_is_no_role_asks_who_leads_and_no_more) {
  const RoleId coordinator{RoleKind::coordinator, 0};
  for (const auto& who : {operator_name, supervisor_name}) {
    BOOST_TEST(may(who, Hello{coordinator, message_revision, true}));
    BOOST_TEST(!may(who, Hello{coordinator, message_revision, false}));
    BOOST_TEST(!may(who, Hello{{RoleKind::worker, 1}, message_revision, true}));
  }
}

BOOST_AUTO_TEST_CASE(what_travels_on_links_only_is_said_by_nobody) {
  for (const auto& who : {worker_1, shard_0, coordinator_name}) {
    BOOST_TEST(!may(who, Push{}));
    BOOST_TEST(!may(who, SliceCopy{}));
    BOOST_TEST(!may(who, caf::tick_atom_v));
    BOOST_TEST(!may(who, caf::exit_msg{}));
  }
  BOOST_TEST(may(worker_1, caf::error{}));
  BOOST_TEST(refusal(worker_1, caf::message{}).empty());
}

BOOST_AUTO_TEST_CASE(a_refusal_names_both) {
  init_actor_types();
  BOOST_TEST(refusal(worker_1, caf::make_message(Hello{{RoleKind::shard, 0}}))
             == "worker:1 may not send Hello for ps:0");
  BOOST_TEST(refusal(worker_1, caf::make_message(Propose{}))
             == "worker:1 may not send Propose");
}

BOOST_AUTO_TEST_SUITE_END()

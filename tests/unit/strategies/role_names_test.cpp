#include "strategies/role_names.hpp"

#include <boost/test/unit_test.hpp>

// Symptom: a second `troupe role ps:0` displaced the live one, and 173 steps
// were undone. Cause: a newer incarnation of a role counted as the loss of the
// one before, whoever that was.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(role_names)

namespace {

using Kind = RoleNames::Kind;

constexpr RoleId worker1{RoleKind::worker, 1};
constexpr RoleId shard0{RoleKind::shard, 0};
const RoleProcess first{"a", 11};
const RoleProcess second{"b", 22};

RoleNames held_by(const RoleProcess& who) {
  RoleNames names;
  names.claim(shard0, who, 0);
  names.joined(shard0, who);
  return names;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_name_that_nobody_has_is_free) {
  BOOST_CHECK(RoleNames{}.look(shard0, first, 5, 0, 5).kind == Kind::free);
}

BOOST_AUTO_TEST_CASE(one_that_gives_a_sign_of_life_keeps_its_name) {
  const auto names = held_by(first);
  BOOST_CHECK(names.look(shard0, second, 1'000, 900, 1'000).kind
              == Kind::waits);
  // This may have been said before it died.
  BOOST_CHECK(names.look(shard0, second, 1'000, 1'199, 1'300).kind
              == Kind::waits);
  const auto verdict = names.look(shard0, second, 1'000, 1'200, 1'300);
  BOOST_CHECK(verdict.kind == Kind::refused);
  BOOST_TEST(verdict.reason
             == "ps:0 is there already: process 11 on a is it, and lives; end "
                "that one first, or start a role of another name");
  BOOST_CHECK(names.look(worker1, second, 1'000, 1'200, 1'300).kind
              == Kind::free);
}

BOOST_AUTO_TEST_CASE(a_lost_one_frees_its_name) {
  auto names = held_by(first);
  names.gone(shard0);
  BOOST_CHECK(names.look(shard0, second, 1'000, 900, 1'000).kind == Kind::free);
}

BOOST_AUTO_TEST_CASE(a_supervisor_speaks_of_the_process_that_it_knew) {
  auto names = held_by(second);
  BOOST_TEST(!names.died(shard0, first)); // its successor has joined
  BOOST_TEST(names.died(shard0, second));
  // Actors of one process cannot be told apart by it.
  auto local = held_by({});
  BOOST_TEST(!local.died(shard0, {}));
}

BOOST_AUTO_TEST_CASE(who_is_starting_has_the_name_too) {
  RoleNames names{{.claim_wait_ms = 1'000, .claim_ms = 30'000}};
  names.claim(shard0, first, 0);
  BOOST_CHECK(names.look(shard0, first, 10, 0, 10).kind == Kind::free);
  BOOST_CHECK(names.look(shard0, second, 10, 0, 1'009).kind == Kind::waits);
  BOOST_CHECK(names.look(shard0, second, 10, 0, 1'010).kind == Kind::refused);
  BOOST_CHECK(names.look(shard0, second, 10, 0, 30'000).kind == Kind::free);
  names.claim_ends(shard0);
  BOOST_CHECK(names.look(shard0, second, 10, 0, 1'010).kind == Kind::free);
}

BOOST_AUTO_TEST_CASE(a_death_while_starting_ends_the_claim) {
  RoleNames names;
  names.claim(shard0, first, 0);
  BOOST_TEST(!names.died(shard0, second));
  BOOST_CHECK(names.look(shard0, second, 10, 0, 11).kind == Kind::waits);
  BOOST_TEST(!names.died(shard0, first)); // nobody is lost
  BOOST_CHECK(names.look(shard0, second, 10, 0, 11).kind == Kind::free);
}

BOOST_AUTO_TEST_CASE(members_of_a_coordinator_before_are_awaited_for_a_while) {
  RoleNames names;
  names.expect({shard0, worker1}, 1'000);
  BOOST_CHECK(names.look(shard0, second, 0, 0, 999).kind == Kind::waits);
  BOOST_CHECK(names.look(shard0, second, 0, 0, 1'000).kind == Kind::free);
  names.died(worker1, first); // together with the coordinator
  BOOST_CHECK(names.look(worker1, second, 0, 0, 1).kind == Kind::free);
  names.joined(shard0, first);
  names.gone(shard0);
  BOOST_CHECK(names.look(shard0, second, 0, 0, 1).kind == Kind::free);
}

BOOST_AUTO_TEST_SUITE_END()

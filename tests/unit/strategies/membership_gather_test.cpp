#include "strategies/membership.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using State = Membership::State;

namespace membership_gather {
namespace {

constexpr RoleId shard0{RoleKind::shard, 0};
constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};

/// Follows a coordinator that died in epoch 7 of these three.
struct Bench {
  static Membership::Options options() {
    Membership::Options out;
    out.roles = {shard0, worker0, worker1};
    out.viable = [](const std::set<RoleId>& present) {
      return present.contains(shard0) && present.size() > 1;
    };
    out.epoch = 7;
    out.gather = {shard0, worker0, worker1};
    out.gather_deadline_ms = 1'000;
    return out;
  }
  Membership it{options(), 0};
};

const Membership::Propose& proposal(const Membership::Actions& actions) {
  BOOST_REQUIRE_EQUAL(actions.size(), 1u);
  return std::get<Membership::Propose>(actions.front());
}

} // namespace
} // namespace membership_gather

BOOST_FIXTURE_TEST_SUITE(membership_gather, Bench)

BOOST_AUTO_TEST_CASE(its_first_epoch_follows_the_last_one_and_waits_for_all) {
  BOOST_TEST(it.join(shard0, 3, 10).empty());
  BOOST_TEST(it.join(worker1, 5, 20).empty()); // viable, but not all are here
  BOOST_TEST(it.tick(500).empty());
  const auto actions = it.join(worker0, 4, 600);
  BOOST_TEST(proposal(actions).epoch == 8u);
  BOOST_TEST(proposal(actions).members.size() == 3u);
}

BOOST_AUTO_TEST_CASE(who_does_not_come_back_is_waited_for_no_longer_than_so) {
  it.join(shard0, 3, 10);
  it.join(worker1, 5, 20);
  BOOST_TEST(it.tick(999).empty());
  const auto actions = it.tick(1'000);
  BOOST_TEST(proposal(actions).epoch == 8u);
  BOOST_TEST(proposal(actions).members.size() == 2u);
}

BOOST_AUTO_TEST_CASE(one_that_comes_back_and_is_lost_again_is_not_waited_for) {
  it.join(shard0, 3, 10);
  it.join(worker1, 5, 20);
  BOOST_TEST(it.lost(worker1, 5, 30).empty());
  const auto actions = it.join(worker0, 4, 40);
  BOOST_TEST(proposal(actions).members.size() == 2u);
}

BOOST_AUTO_TEST_CASE(too_few_are_waited_for_as_ever) {
  it.join(worker0, 3, 10);
  BOOST_TEST(it.tick(1'000).empty()); // no shard: nothing to go on with
  const auto actions = it.join(shard0, 9, 5'000);
  BOOST_TEST(proposal(actions).epoch == 8u);
}

BOOST_AUTO_TEST_CASE(one_that_leaves_for_good_is_not_waited_for) {
  it.join(shard0, 3, 10);
  it.join(worker1, 5, 20);
  it.dismiss(worker0, 30);
  const auto actions = it.join(worker1, 6, 40);
  BOOST_TEST(proposal(actions).members.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

#include "strategies/step_division.hpp"
#include "strategies/takeover.hpp"
#include "strategies/tree_addends.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_division)

namespace {

constexpr auto room = ~uint32_t{0};

/// Throws (asserts) where the nodes leave out a rank, or overlap.
size_t addends_of(const std::vector<MemberNodes>& shares, uint32_t ranks) {
  return tree_addends(nodes_of(shares), std::vector<bool>(ranks, true)).size();
}

} // namespace

BOOST_AUTO_TEST_CASE(an_undisturbed_step_has_each_members_ranks) {
  const auto shares = divide_step({{{0, 4}, {}}, {{4, 8}, {}}},
                                  {8, false, 2, room});
  BOOST_TEST_REQUIRE(shares.size() == 2u);
  BOOST_TEST((shares[0] == MemberNodes{{}, {{0, 2}, {2, 4}}}));
  BOOST_TEST((shares[1] == MemberNodes{{}, {{4, 6}, {6, 8}}}));
}

BOOST_AUTO_TEST_CASE(survivors_keep_their_sums_and_compute_what_nobody_has) {
  // Of three, the one in the middle died; ranks are divided anew.
  const auto shares = divide_step(
    {{{0, 4}, {{0, 2}}}, {{4, 8}, {{5, 6}, {6, 8}}}}, {8, false, 4, room});
  BOOST_TEST((shares[0] == MemberNodes{{{0, 2}}, {{2, 4}}}));
  BOOST_TEST((shares[1] == MemberNodes{{{5, 6}, {6, 8}}, {{4, 5}}}));
  BOOST_TEST(addends_of(shares, 8) == 5u);
}

BOOST_AUTO_TEST_CASE(sums_count_whoever_owns_their_ranks_now) {
  const auto shares = divide_step({{{0, 4}, {{4, 8}}}, {{4, 8}, {{0, 4}}}},
                                  {8, false, 1, room});
  BOOST_TEST((shares[0] == MemberNodes{{{4, 8}}, {}}));
  BOOST_TEST((shares[1] == MemberNodes{{{0, 4}}, {}}));
}

BOOST_AUTO_TEST_CASE(without_room_all_compute_again) {
  const auto shares = divide_step({{{0, 4}, {{0, 1}}}, {{4, 8}, {{6, 8}}}},
                                  {8, false, 1, 2});
  BOOST_TEST((shares[0] == MemberNodes{{}, {{0, 4}}}));
  BOOST_TEST((shares[1] == MemberNodes{{}, {{4, 8}}}));
}

BOOST_AUTO_TEST_CASE(in_any_order_all_compute_again) {
  const auto shares = divide_step({{{0, 5}, {{0, 3}}}, {{5, 8}, {}}},
                                  {8, true, 4, room});
  BOOST_TEST((shares[0] == MemberNodes{{}, {{0, 5}}}));
  BOOST_TEST((shares[1] == MemberNodes{{}, {{5, 8}}}));
}

BOOST_AUTO_TEST_CASE(whoever_dies_and_comes_the_tree_is_whole) {
  std::mt19937 random{5};
  const auto below = [&](uint32_t end) {
    return static_cast<uint32_t>(random() % end);
  };
  for (int round = 0; round < 500; ++round) {
    const auto ranks = 1 + below(40);
    const DivisionOptions options{ranks, false, 1 + below(4),
                                  below(2) == 0 ? room : 6};
    const auto count = 1 + below(std::min(ranks, 6u));
    std::vector<StepMember> members;
    for (uint32_t i = 0; i < count; ++i)
      members.push_back({ranks_of_worker(i, count, ranks), {}});
    for (int death = 0; death < 5; ++death) {
      const auto shares = divide_step(members, options);
      addends_of(shares, ranks); // asserts
      for (const auto& share : shares)
        BOOST_TEST(share.held.size() + share.left.size()
                   <= std::max(options.most, max_nodes(options)));
      // Some got to the end of what they compute, some die, some are new.
      std::vector<StepMember> next;
      for (size_t i = 0; i < members.size(); ++i) {
        StepMember member{{}, shares[i].held};
        if (below(3) == 0)
          continue;
        if (below(2) == 0)
          member.held.insert(member.held.end(), shares[i].left.begin(),
                             shares[i].left.end());
        next.push_back(member);
      }
      if (next.empty() || (next.size() < ranks && below(2) == 0))
        next.push_back({});
      for (uint32_t i = 0; i < next.size(); ++i)
        next[i].ranks = ranks_of_worker(i, static_cast<uint32_t>(next.size()),
                                        ranks);
      members = next;
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

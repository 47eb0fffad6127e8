#include "strategies/dead_links.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace troupe {
BOOST_AUTO_TEST_SUITE(dead_links)

namespace {

using Roles = std::vector<RoleId>;

constexpr RoleId worker(uint32_t index) {
  return {RoleKind::worker, index};
}
constexpr RoleId shard(uint32_t index) {
  return {RoleKind::shard, index};
}

const std::set<RoleId> all{worker(0), worker(1), worker(2), shard(0), shard(1)};

/// One worker and one shard go on, whichever.
bool one_of_each(const std::set<RoleId>& roles) {
  const auto has = [&](RoleKind kind) {
    return std::any_of(roles.begin(), roles.end(),
                       [&](RoleId x) { return x.kind == kind; });
  };
  return has(RoleKind::worker) && has(RoleKind::shard);
}

/// Every shard is needed.
bool all_shards(const std::set<RoleId>& roles) {
  return one_of_each(roles) && roles.contains(shard(0))
         && roles.contains(shard(1));
}

/// The link fails in as many epochs as it takes.
void die(DeadLinks& links, RoleId one, RoleId other, uint64_t& epoch,
         uint64_t now_ms = 0) {
  links.failed(one, other, ++epoch, now_ms);
  links.failed(one, other, ++epoch, now_ms);
}

bool equal(const Roles& found, const Roles& expected) {
  return std::set(found.begin(), found.end())
         == std::set(expected.begin(), expected.end());
}

} // namespace

BOOST_AUTO_TEST_CASE(a_link_that_failed_once_is_tried_again) {
  DeadLinks links;
  links.failed(worker(1), shard(0), 1, 0);
  BOOST_TEST(links.leave_out(all, one_of_each, 0).empty());
}

BOOST_AUTO_TEST_CASE(both_ends_that_say_so_are_one_failure) {
  DeadLinks links;
  links.failed(worker(1), shard(0), 1, 0);
  links.failed(shard(0), worker(1), 1, 0);
  BOOST_TEST(links.leave_out(all, one_of_each, 0).empty());
}

BOOST_AUTO_TEST_CASE(a_commit_between_two_failures_proves_the_link) {
  DeadLinks links;
  links.failed(worker(1), shard(0), 1, 0);
  links.committed();
  links.failed(worker(1), shard(0), 2, 0);
  BOOST_TEST(links.leave_out(all, one_of_each, 0).empty());
}

BOOST_AUTO_TEST_CASE(of_a_worker_and_a_shard_the_worker_goes) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(1), shard(0), epoch);
  BOOST_TEST(equal(links.leave_out(all, one_of_each, 0), {worker(1)}));
}

BOOST_AUTO_TEST_CASE(of_two_workers_the_one_with_the_higher_number_goes) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(2), worker(0), epoch);
  BOOST_TEST(equal(links.leave_out(all, one_of_each, 0), {worker(2)}));
}

BOOST_AUTO_TEST_CASE(one_member_that_two_links_have_in_common_goes) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(0), worker(1), epoch);
  links.failed(worker(0), worker(2), epoch - 1, 0);
  links.failed(worker(0), worker(2), epoch, 0);
  BOOST_TEST(equal(links.leave_out(all, one_of_each, 0), {worker(0)}));
}

BOOST_AUTO_TEST_CASE(who_is_needed_stays_though_more_have_to_go) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(1), shard(0), epoch);
  links.failed(worker(2), shard(0), epoch - 1, 0);
  links.failed(worker(2), shard(0), epoch, 0);
  BOOST_TEST(
    equal(DeadLinks{links}.leave_out(all, one_of_each, 0), {shard(0)}));
  BOOST_TEST(
    equal(links.leave_out(all, all_shards, 0), {worker(1), worker(2)}));
}

BOOST_AUTO_TEST_CASE(nobody_goes_where_nobody_can_be_spared) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(0), shard(0), epoch);
  const std::set<RoleId> two{worker(0), shard(0)};
  BOOST_TEST(links.leave_out(two, one_of_each, 0).empty());
  BOOST_TEST(links.to_probe(worker(0), two).empty());
  BOOST_TEST(
    (links.dead(two) == std::vector<DeadLinks::Link>{{worker(0), shard(0)}}));
  BOOST_TEST(links.dead({worker(0)}).empty());
  links.committed();
  BOOST_TEST(links.dead(two).empty());
}

BOOST_AUTO_TEST_CASE(who_is_left_out_probes_the_other_end_and_comes_back) {
  DeadLinks links;
  uint64_t epoch = 0;
  die(links, worker(1), shard(0), epoch);
  links.leave_out(all, one_of_each, 0);
  BOOST_TEST(links.is_out(worker(1)));
  BOOST_TEST(!links.is_out(shard(0)));
  const auto probed = links.to_probe(worker(1), all);
  BOOST_TEST((probed == std::set{shard(0)}));
  BOOST_TEST(links.to_probe(worker(0), all).empty());
  BOOST_TEST(links.delay_ms(worker(1), 0) == 0u);
  links.committed(); // by the others: that proves nothing of this link
  BOOST_TEST(!links.to_probe(worker(1), all).empty());
  links.readmitted(worker(1), 5'000);
  BOOST_TEST(links.to_probe(worker(1), all).empty());
  BOOST_TEST(links.leave_out(all, one_of_each, 5'000).empty());
}

BOOST_AUTO_TEST_CASE(the_delay_doubles_up_to_its_bound_and_is_forgotten) {
  DeadLinks links;
  uint64_t epoch = 0;
  uint64_t now = 0;
  const auto dies = [&] {
    die(links, worker(1), shard(0), epoch, now);
    BOOST_TEST_REQUIRE(links.leave_out(all, one_of_each, now).size() == 1u);
    const auto delay = links.delay_ms(worker(1), now);
    links.readmitted(worker(1), now += delay);
    links.committed();
    return delay;
  };
  BOOST_TEST(dies() == 0u);
  for (uint64_t delay = 1'000; delay < 60'000; delay *= 2)
    BOOST_TEST(dies() == delay);
  BOOST_TEST(dies() == 60'000u);
  now += 60'000;
  BOOST_TEST(dies() == 0u);
}

BOOST_AUTO_TEST_CASE(the_fewest_of_any_dead_links_among_five_members_go) {
  // Every graph of five workers against all sets of them.
  const Roles five{worker(0), worker(1), worker(2), worker(3), worker(4)};
  const std::set<RoleId> present(five.begin(), five.end());
  const auto viable = [](const std::set<RoleId>& x) { return !x.empty(); };
  std::vector<std::pair<RoleId, RoleId>> pairs;
  for (size_t i = 0; i < five.size(); ++i)
    for (size_t j = i + 1; j < five.size(); ++j)
      pairs.emplace_back(five[i], five[j]);
  for (uint32_t graph = 1; graph < 1u << pairs.size(); ++graph) {
    DeadLinks links;
    for (uint64_t epoch : {1, 2})
      for (size_t i = 0; i < pairs.size(); ++i)
        if ((graph >> i & 1) != 0)
          links.failed(pairs[i].first, pairs[i].second, epoch, 0);
    const auto out = links.leave_out(present, viable, 0);
    size_t least = five.size();
    for (uint32_t set = 0; set < 32; ++set) {
      bool covers = true;
      for (size_t i = 0; i < pairs.size(); ++i)
        covers = covers
                 && ((graph >> i & 1) == 0
                     || (set >> pairs[i].first.index & 1) != 0
                     || (set >> pairs[i].second.index & 1) != 0);
      if (covers)
        least = std::min(least, static_cast<size_t>(__builtin_popcount(set)));
    }
    BOOST_REQUIRE(out.size() == least);
  }
}

/// A worker, the head of one chain and the tail of the other on each host.
const std::set<RoleId> on_two_hosts{worker(0), worker(1), shard(0),
                                    shard(1),  shard(2),  shard(3)};

std::optional<DeadLinks::Cable> cable(RoleId one, RoleId other) {
  const auto host = [](RoleId x) {
    return x == worker(0) || x == shard(0) || x == shard(3) ? "a" : "b";
  };
  if (host(one) == std::string{host(other)}
      || (one.kind == RoleKind::worker && other.kind == RoleKind::worker))
    return std::nullopt;
  return DeadLinks::Cable{"a", "b"};
}

/// A worker, and a member of each chain: 0 with 2, and 1 with 3.
bool of_each_chain(const std::set<RoleId>& x) {
  return (x.contains(worker(0)) || x.contains(worker(1)))
         && (x.contains(shard(0)) || x.contains(shard(2)))
         && (x.contains(shard(1)) || x.contains(shard(3)));
}

BOOST_AUTO_TEST_CASE(a_cut_cable_costs_one_side_of_it) {
  // The chains fail first, then they and the workers. Without the rule of
  // cables two shards go, each of which the others need soon after.
  DeadLinks links;
  links.failed(shard(0), shard(2), 1, 0);
  links.failed(shard(1), shard(3), 1, 0);
  BOOST_TEST(links.leave_out(on_two_hosts, of_each_chain, 0, cable).empty());
  for (auto [one, other] : {std::pair{shard(0), shard(2)},
                            {shard(1), shard(3)},
                            {worker(0), shard(1)},
                            {worker(1), shard(0)}})
    links.failed(one, other, 2, 0);
  const auto out = links.leave_out(on_two_hosts, of_each_chain, 0, cable);
  BOOST_TEST(equal(out, {worker(1), shard(1), shard(2)}));
  const std::set<RoleId> rest{worker(0), shard(0), shard(3)};
  BOOST_TEST(links.dead(rest, cable).empty());
  BOOST_TEST(
    (links.to_probe(worker(1), rest) == std::set<RoleId>{shard(0), shard(3)}));
  BOOST_TEST((links.to_probe(shard(1), rest) == rest));
  BOOST_TEST(links.delay_ms(shard(1), 0) == 0u);
  for (auto role : out)
    links.readmitted(role, 10);
  BOOST_TEST(links.dead(on_two_hosts, cable).empty());
}

BOOST_AUTO_TEST_CASE(links_with_an_end_in_common_are_no_cable) {
  // One port that nobody reaches.
  DeadLinks links;
  for (uint64_t epoch : {1, 2})
    for (auto other : {worker(0), shard(0), shard(3)})
      links.failed(other, shard(1), epoch, 0);
  BOOST_TEST(links.dead(on_two_hosts, cable).size() == 3u);
  BOOST_TEST(
    equal(links.leave_out(on_two_hosts, of_each_chain, 0, cable), {shard(1)}));
}

BOOST_AUTO_TEST_CASE(two_links_that_failed_once_are_no_cable) {
  DeadLinks links;
  links.failed(shard(0), shard(2), 1, 0);
  links.failed(shard(1), shard(3), 1, 0);
  links.failed(worker(0), shard(1), 2, 0);
  BOOST_TEST(links.dead(on_two_hosts, cable).empty());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace troupe

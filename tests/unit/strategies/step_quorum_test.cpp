#include "strategies/step_ledger.hpp"
#include "strategies/step_quorum.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_quorum)

namespace {

using Ranges = std::vector<RankRange>;

Ranges shares_of(uint32_t workers, uint32_t ranks) {
  Ranges shares;
  for (uint32_t i = 0; i < workers; ++i)
    shares.push_back(ranks_of_worker(i, workers, ranks));
  return shares;
}

/// Every node of every share, in random order, some of them twice.
Ranges arrivals(const Ranges& shares, uint32_t ranks, std::mt19937& random) {
  Ranges nodes;
  for (auto share : shares)
    for (auto node : maximal_nodes(share, ranks)) {
      nodes.push_back(node);
      if (random() % 3 == 0)
        nodes.push_back(node);
    }
  std::shuffle(nodes.begin(), nodes.end(), random);
  return nodes;
}

} // namespace

// PROTOCOL 13
BOOST_AUTO_TEST_CASE(a_step_is_decided_once_by_whoever_arrives_first) {
  std::mt19937 random{1};
  for (uint32_t workers : {2, 3, 5, 8})
    for (uint32_t backups = 1; backups < workers; ++backups) {
      const auto shares = shares_of(workers, 13);
      StepQuorum quorum{shares, backups};
      for (uint64_t step = 0; step < 50; ++step) {
        int decisions = 0;
        Ranges seen;
        for (auto node : arrivals(shares, 13, random)) {
          seen.push_back(node);
          const auto included = quorum.offer(step, node);
          if (included.empty())
            continue;
          ++decisions;
          BOOST_TEST(included.size() == workers - backups);
          for (auto share : included)
            for (auto part : maximal_nodes(share, 13))
              BOOST_TEST((std::ranges::find(seen, part) != seen.end()));
        }
        BOOST_TEST(decisions == 1);
      }
    }
}

BOOST_AUTO_TEST_CASE(what_comes_late_or_again_decides_nothing) {
  StepQuorum quorum{shares_of(3, 3), 1};
  BOOST_TEST(quorum.offer(4, {0, 1}).empty());
  BOOST_TEST(quorum.offer(4, {0, 1}).empty()); // a duplicate is one arrival
  BOOST_TEST((quorum.offer(4, {2, 3}) == Ranges{{0, 1}, {2, 3}}));
  BOOST_TEST(quorum.offer(4, {1, 2}).empty());
  BOOST_TEST(quorum.offer(5, {1, 2}).empty());
  BOOST_TEST(quorum.offer(4, {0, 1}).empty()); // of a step that is over
  BOOST_TEST((quorum.offer(5, {0, 1}) == Ranges{{0, 1}, {1, 2}}));
}

BOOST_AUTO_TEST_CASE(after_an_epoch_change_all_arrive_again) {
  StepQuorum quorum{shares_of(2, 4), 1};
  BOOST_TEST(quorum.offer(0, {0, 1}).empty());
  quorum.forget();
  BOOST_TEST(quorum.offer(0, {1, 2}).empty());
  BOOST_TEST((quorum.offer(0, {0, 1}) == Ranges{{0, 2}}));
}

/// With identities for what is left out, a ledger's tree becomes whole.
BOOST_AUTO_TEST_CASE(included_and_left_out_make_the_whole_tree) {
  for (uint32_t workers : {2, 3, 5})
    for (uint32_t ranks : {5, 8, 13})
      for (uint32_t slow = 0; slow < workers; ++slow) {
        const auto shares = shares_of(workers, ranks);
        auto included = shares;
        included.erase(included.begin() + slow);
        StepLedger ledger{ranks, 0};
        for (auto node : left_out(included, shares, ranks))
          BOOST_TEST(
            (ledger.offer(0, node).verdict == StepLedger::Verdict::accept));
        BOOST_TEST(!ledger.complete());
        for (auto share : included)
          for (auto node : nodes_of_shares(share, shares, ranks))
            ledger.offer(0, node);
        BOOST_TEST(ledger.complete());
      }
}

BOOST_AUTO_TEST_CASE(no_node_reaches_over_two_shares) {
  const auto shares = shares_of(3, 8);
  for (auto node : nodes_of_shares({0, 8}, shares, 8))
    BOOST_TEST(std::ranges::count_if(
                 shares, [&](RankRange share) { return share.covers(node); })
               == 1);
}

BOOST_AUTO_TEST_SUITE_END()

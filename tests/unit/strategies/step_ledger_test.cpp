#include "strategies/step_ledger.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_ledger)

using Verdict = StepLedger::Verdict;

namespace {

/// What a payload would be: the sum of the node's leaves as an expression, so
/// that another order of additions shows.
std::string expression(RankRange node) {
  if (node.size() == 1)
    return std::to_string(node.lo);
  auto [left, right] = children(node);
  return '(' + expression(left) + '+' + expression(right) + ')';
}

/// Owns a slice: does with expressions what the decisions say.
struct Owner {
  explicit Owner(uint32_t v) : virtual_ranks(v), ledger(v, 0) {
    // nop
  }

  Verdict offer(uint64_t step, RankRange node) {
    auto decision = ledger.offer(step, node);
    if (decision.verdict != Verdict::accept) {
      BOOST_TEST(decision.replaced.empty());
      BOOST_TEST(decision.combines.empty());
      return decision.verdict;
    }
    BOOST_TEST(!payloads.contains(node));
    payloads[node] = expression(node);
    for (auto child : decision.replaced) {
      BOOST_TEST(node.covers(child));
      BOOST_TEST(payloads.erase(child) == 1u);
    }
    for (auto [left, right, parent] : decision.combines) {
      auto sum = '(' + payloads.at(left) + '+' + payloads.at(right) + ')';
      payloads.erase(left);
      payloads.erase(right);
      payloads[parent] = sum;
    }
    std::vector<RankRange> keys;
    for (const auto& [key, value] : payloads)
      keys.push_back(key);
    BOOST_TEST((keys == ledger.held()));
    return decision.verdict;
  }

  std::string result() const { return payloads.at({0, virtual_ranks}); }

  uint32_t virtual_ranks;
  StepLedger ledger;
  std::map<RankRange, std::string> payloads;
};

/// Returns what the workers of a partition of [0, v) send; bit i of `cuts`
/// starts a new worker at virtual rank i + 1.
std::vector<RankRange> pushes(uint32_t v, uint32_t cuts) {
  std::vector<RankRange> out;
  uint32_t lo = 0;
  for (uint32_t hi = 1; hi <= v; ++hi) {
    if (hi < v && (cuts >> (hi - 1) & 1) == 0)
      continue;
    for (auto node : maximal_nodes({lo, hi}, v))
      out.push_back(node);
    lo = hi;
  }
  return out;
}

RankRange random_node(uint32_t v, std::mt19937& random) {
  auto node = RankRange{0, v};
  while (node.size() > 1 && random() % 4 != 0) {
    auto [left, right] = children(node);
    node = random() % 2 == 0 ? left : right;
  }
  return node;
}

} // namespace

BOOST_AUTO_TEST_CASE(any_partition_in_any_order_adds_in_the_same_order) {
  // I1 and I3: every composition of V, several orders of arrival each.
  std::mt19937 random{1};
  for (uint32_t v = 1; v <= 17; ++v) {
    auto expected = expression({0, v});
    auto partitions = uint32_t{1} << (v - 1);
    auto stride = std::max(1u, partitions / 512);
    for (uint32_t cuts = 0; cuts < partitions; cuts += stride) {
      auto nodes = pushes(v, stride == 1 ? cuts : random() % partitions);
      for (int order = 0; order < 4; ++order) {
        Owner owner{v};
        for (auto node : nodes) {
          BOOST_TEST(!owner.ledger.complete());
          BOOST_TEST((owner.offer(0, node) == Verdict::accept));
        }
        BOOST_TEST(owner.ledger.complete());
        BOOST_TEST(owner.result() == expected);
        std::ranges::shuffle(nodes, random);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(any_number_of_workers_adds_in_the_same_order) {
  for (uint32_t v = 1; v <= 17; ++v)
    for (uint32_t workers = 1; workers <= v; ++workers) {
      Owner owner{v};
      for (uint32_t i = 0; i < workers; ++i)
        for (auto node : maximal_nodes(ranks_of_worker(i, workers, v), v))
          owner.offer(0, node);
      BOOST_TEST(owner.result() == expression({0, v}));
    }
}

BOOST_AUTO_TEST_CASE(random_nested_and_repeated_nodes_count_each_leaf_once) {
  // I1: retries, hand-over between partitions, ancestors over descendants.
  std::mt19937 random{2};
  int duplicates = 0;
  int replaced = 0;
  for (int run = 0; run < 2000; ++run) {
    auto v = 1 + static_cast<uint32_t>(random() % 17);
    Owner owner{v};
    std::vector<bool> covered(v);
    while (!owner.ledger.complete()) {
      auto node = random_node(v, random);
      auto fresh = false;
      for (auto i = node.lo; i < node.hi; ++i)
        fresh |= !covered[i];
      auto before = owner.ledger.held();
      auto verdict = owner.offer(0, node);
      BOOST_TEST((verdict == (fresh ? Verdict::accept : Verdict::duplicate)));
      if (!fresh)
        BOOST_TEST((owner.ledger.held() == before));
      duplicates += !fresh;
      replaced += std::ranges::any_of(before, [&](RankRange x) {
        return fresh && node.covers(x);
      });
      std::fill(covered.begin() + node.lo, covered.begin() + node.hi, true);
    }
    BOOST_TEST(owner.result() == expression({0, v}));
  }
  BOOST_TEST(duplicates > 100); // the faults really happened
  BOOST_TEST(replaced > 100);
}

BOOST_AUTO_TEST_CASE(after_a_death_resending_what_is_not_listed_completes) {
  // PROTOCOL 10: worker 1 of 3 dies; the survivors resend what held() lacks.
  for (uint32_t v = 3; v <= 17; ++v) {
    Owner owner{v};
    for (uint32_t i : {0u, 2u})
      for (auto node : maximal_nodes(ranks_of_worker(i, 3, v), v))
        owner.offer(0, node);
    auto listed = owner.ledger.held();
    for (uint32_t i = 0; i < 2; ++i)
      for (auto node : maximal_nodes(ranks_of_worker(i, 2, v), v))
        if (std::ranges::none_of(listed,
                                 [&](RankRange x) { return x.covers(node); }))
          BOOST_TEST((owner.offer(0, node) == Verdict::accept));
    BOOST_TEST(owner.result() == expression({0, v}));
  }
}

BOOST_AUTO_TEST_CASE(a_second_copy_of_a_push_is_a_duplicate) {
  StepLedger ledger{4, 0};
  BOOST_TEST((ledger.offer(0, {0, 2}).verdict == Verdict::accept));
  auto again = ledger.offer(0, {0, 2});
  BOOST_TEST((again.verdict == Verdict::duplicate));
  BOOST_TEST(again.reason == "its virtual ranks are held already");
  BOOST_TEST((ledger.offer(0, {1, 2}).verdict == Verdict::duplicate));
}

BOOST_AUTO_TEST_CASE(a_node_whose_leaves_came_one_by_one_is_a_duplicate) {
  StepLedger ledger{4, 0};
  ledger.offer(0, {2, 3});
  ledger.offer(0, {3, 4});
  BOOST_TEST((ledger.offer(0, {2, 4}).verdict == Verdict::duplicate));
}

BOOST_AUTO_TEST_CASE(an_ancestor_replaces_its_descendants) {
  StepLedger ledger{8, 0};
  ledger.offer(0, {0, 1});
  ledger.offer(0, {2, 4});
  ledger.offer(0, {4, 5});
  auto decision = ledger.offer(0, {0, 4});
  BOOST_TEST((decision.verdict == Verdict::accept));
  BOOST_TEST((decision.replaced == std::vector<RankRange>{{0, 1}, {2, 4}}));
  BOOST_TEST(decision.combines.empty());
  BOOST_TEST((ledger.held() == std::vector<RankRange>{{0, 4}, {4, 5}}));
}

BOOST_AUTO_TEST_CASE(the_last_leaf_combines_up_to_the_root) {
  StepLedger ledger{5, 0};
  ledger.offer(0, {4, 5});
  ledger.offer(0, {2, 4});
  ledger.offer(0, {0, 1});
  auto decision = ledger.offer(0, {1, 2});
  BOOST_TEST(decision.combines.size() == 3u);
  BOOST_TEST((decision.combines[0].parent == RankRange{0, 2}));
  BOOST_TEST((decision.combines[1].left == RankRange{0, 2}));
  BOOST_TEST((decision.combines[1].right == RankRange{2, 4}));
  BOOST_TEST((decision.combines[2].parent == RankRange{0, 5}));
  BOOST_TEST(ledger.complete());
}

BOOST_AUTO_TEST_CASE(pushes_of_other_steps_are_stale_or_ahead) {
  // I4: nothing from another step has effect.
  StepLedger ledger{2, 7};
  BOOST_TEST((ledger.offer(6, {0, 2}).verdict == Verdict::stale));
  BOOST_TEST((ledger.offer(8, {0, 2}).verdict == Verdict::ahead));
  BOOST_TEST(ledger.held().empty());
  BOOST_TEST((ledger.offer(7, {0, 2}).verdict == Verdict::accept));
  ledger.advance();
  BOOST_TEST(ledger.version() == 8u);
  BOOST_TEST(!ledger.complete());
  BOOST_TEST((ledger.offer(7, {0, 2}).verdict == Verdict::stale));
  BOOST_TEST((ledger.offer(8, {0, 1}).verdict == Verdict::accept));
}

BOOST_AUTO_TEST_CASE(a_rollback_forgets_what_was_held) {
  StepLedger ledger{4, 9};
  ledger.offer(9, {0, 2});
  ledger.reset(5);
  BOOST_TEST(ledger.version() == 5u);
  BOOST_TEST(ledger.held().empty());
  BOOST_TEST((ledger.offer(9, {2, 4}).verdict == Verdict::ahead));
  BOOST_TEST((ledger.offer(5, {0, 4}).verdict == Verdict::accept));
  BOOST_TEST(ledger.complete());
}

namespace {

/// Sums at once while nodes are pushed in this order.
size_t sums_at_once(const std::vector<RankRange>& order,
                    uint32_t virtual_ranks) {
  StepLedger ledger{virtual_ranks, 0};
  std::set<RankRange> sums;
  size_t most = 0;
  for (auto node : order)
    for (const auto& [left, right, parent] : ledger.offer(0, node).combines) {
      sums.insert(parent);
      most = std::max(most, sums.size());
      sums.erase(left);
      sums.erase(right);
    }
  return most;
}

std::vector<RankRange> nodes_of_workers(uint32_t workers,
                                        uint32_t virtual_ranks) {
  std::vector<RankRange> nodes;
  for (uint32_t worker = 0; worker < workers; ++worker)
    for (auto node : maximal_nodes(
           ranks_of_worker(worker, workers, virtual_ranks), virtual_ranks))
      nodes.push_back(node);
  return nodes;
}

} // namespace

BOOST_AUTO_TEST_CASE(no_order_of_pushes_makes_more_sums_at_once_than_are_said) {
  for (uint32_t v = 1; v <= 10; ++v)
    for (uint32_t workers = 1; workers <= v; ++workers) {
      auto order = nodes_of_workers(workers, v);
      if (order.size() > 8)
        continue; // too many orders
      std::ranges::sort(order);
      size_t most = 0;
      do
        most = std::max(most, sums_at_once(order, v));
      while (std::ranges::next_permutation(order).found);
      BOOST_TEST(most == max_sums_at_once(order, v),
                 workers << " workers of " << v << " ranks");
    }
}

BOOST_AUTO_TEST_CASE(workers_with_unequal_ranks_make_more_sums_at_once) {
  // As if their 20 nodes were alike: (20 + 3) / 4 + 2 = 7.
  const auto nodes = nodes_of_workers(12, 32);
  BOOST_TEST(nodes.size() == 20u);
  BOOST_TEST(max_sums_at_once(nodes, 32) == 9u);
}

BOOST_AUTO_TEST_SUITE_END()

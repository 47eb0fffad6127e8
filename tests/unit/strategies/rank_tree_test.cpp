#include "strategies/rank_tree.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(rank_tree)

namespace {

constexpr uint32_t max_ranks = 17;

/// Lists every node of the tree over [0, virtual_ranks), parents first.
std::vector<RankRange> all_nodes(uint32_t virtual_ranks) {
  std::vector<RankRange> out{{0, virtual_ranks}};
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].size() < 2)
      continue;
    auto [left, right] = children(out[i]);
    out.push_back(left);
    out.push_back(right);
  }
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_node_splits_at_the_largest_power_of_two_below_its_size) {
  // PROTOCOL 3.
  using Pair = std::pair<RankRange, RankRange>;
  BOOST_TEST((children({0, 2}) == Pair{{0, 1}, {1, 2}}));
  BOOST_TEST((children({0, 3}) == Pair{{0, 2}, {2, 3}}));
  BOOST_TEST((children({0, 4}) == Pair{{0, 2}, {2, 4}}));
  BOOST_TEST((children({0, 5}) == Pair{{0, 4}, {4, 5}}));
  BOOST_TEST((children({0, 17}) == Pair{{0, 16}, {16, 17}}));
  BOOST_TEST((children({4, 7}) == Pair{{4, 6}, {6, 7}}));
}

BOOST_AUTO_TEST_CASE(exactly_the_ranges_reached_from_the_root_are_nodes) {
  for (uint32_t v = 1; v <= max_ranks; ++v) {
    auto nodes = all_nodes(v);
    BOOST_TEST(nodes.size() == 2 * v - 1);
    for (uint32_t lo = 0; lo <= v + 1; ++lo)
      for (uint32_t hi = 0; hi <= v + 2; ++hi) {
        auto range = RankRange{lo, hi};
        auto expected = std::ranges::find(nodes, range) != nodes.end();
        BOOST_TEST(is_node(range, v) == expected,
                   "[" << lo << ", " << hi << ") of " << v);
      }
  }
}

BOOST_AUTO_TEST_CASE(no_range_is_a_node_of_an_empty_tree) {
  BOOST_TEST(!is_node({0, 0}, 0));
  BOOST_TEST(!is_node({0, 1}, 0));
  BOOST_TEST(maximal_nodes({0, 4}, 0).empty());
}

BOOST_AUTO_TEST_CASE(maximal_nodes_cut_any_range_into_its_largest_nodes) {
  for (uint32_t v = 1; v <= max_ranks; ++v)
    for (uint32_t lo = 0; lo <= v; ++lo)
      for (uint32_t hi = lo; hi <= v; ++hi) {
        auto range = RankRange{lo, hi};
        auto nodes = maximal_nodes(range, v);
        auto next = lo; // left to right, each leaf once, no gap
        for (auto node : nodes) {
          BOOST_TEST(is_node(node, v));
          BOOST_TEST(node.lo == next);
          next = node.hi;
        }
        BOOST_TEST(next == hi);
        for (auto larger : all_nodes(v)) // and none could be larger
          if (range.covers(larger))
            BOOST_TEST(std::ranges::any_of(nodes, [&](RankRange node) {
              return node.covers(larger);
            }));
      }
}

BOOST_AUTO_TEST_CASE(a_range_is_few_nodes) {
  // A worker sends O(log V) nodes, not one for each of its virtual ranks.
  for (uint32_t v = 1; v <= 130; ++v)
    for (uint32_t lo = 0; lo <= v; ++lo)
      BOOST_TEST(maximal_nodes({lo, v}, v).size() <= 8u);
}

BOOST_AUTO_TEST_CASE(workers_own_each_virtual_rank_once) {
  // I1.
  for (uint32_t v = 1; v <= max_ranks; ++v)
    for (uint32_t workers = 1; workers <= v; ++workers) {
      uint32_t next = 0;
      for (uint32_t i = 0; i < workers; ++i) {
        auto range = ranks_of_worker(i, workers, v);
        BOOST_TEST(range.lo == next);
        BOOST_TEST(range.size() >= v / workers);
        BOOST_TEST(range.size() <= (v + workers - 1) / workers);
        next = range.hi;
      }
      BOOST_TEST(next == v);
    }
}

BOOST_AUTO_TEST_CASE(ranges_of_workers_do_not_overflow) {
  constexpr auto most = ~uint32_t{0};
  auto last = ranks_of_worker(most - 1, most, most);
  BOOST_TEST((last == RankRange{most - 1, most}));
}

BOOST_AUTO_TEST_SUITE_END()

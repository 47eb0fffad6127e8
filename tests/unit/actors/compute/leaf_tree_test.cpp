#include "actors/compute/leaf_tree.hpp"
#include "tests/unit/actors/compute/tree_values.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(leaf_tree_suite)

BOOST_AUTO_TEST_CASE(leaves_in_any_order_give_the_bits_of_the_tree) {
  std::mt19937 random(4);
  for (uint32_t ranks : {1, 2, 3, 4, 5, 7, 8, 13}) {
    LeafTree tree{tree_elements};
    for (int round = 0; round < 20; ++round) {
      std::vector<uint32_t> samples(ranks);
      for (auto& count : samples)
        count = random() % 3;
      samples[random() % ranks] = 1;
      std::vector<uint32_t> order(ranks);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      tree.begin(samples);
      for (auto rank : order) {
        if (samples[rank] == 0)
          continue;
        auto* leaf = tree.next(rank);
        for (size_t i = 0; i < tree_elements; ++i)
          leaf[i] = leaf_value(rank, i);
        tree.put(rank);
      }
      const auto want = tree_sum({0, ranks}, samples);
      const auto* found = tree.root();
      BOOST_TEST(std::equal(want.begin(), want.end(), found));
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_stop_where_others_have_the_rest) {
  std::mt19937 random(5);
  for (uint32_t ranks : {1, 3, 5, 8, 13})
    for (uint32_t lo = 0; lo < ranks; ++lo)
      for (auto hi = lo + 1; hi <= ranks; ++hi) {
        std::vector<uint32_t> samples(ranks, 1);
        samples[random() % ranks] = 0;
        LeafTree tree{tree_elements};
        tree.begin(samples, {lo, hi});
        for (auto rank = hi; rank-- > lo;) {
          if (samples[rank] == 0)
            continue;
          auto* leaf = tree.next(rank);
          for (size_t i = 0; i < tree_elements; ++i)
            leaf[i] = leaf_value(rank, i);
          tree.put(rank);
        }
        for (auto node : maximal_nodes({lo, hi}, ranks)) {
          const auto want = tree_sum(node, samples);
          BOOST_TEST((want.empty()
                      || std::equal(want.begin(), want.end(), tree.sum(node))));
        }
      }
}

BOOST_AUTO_TEST_CASE(a_step_that_was_broken_off_leaves_nothing_behind) {
  LeafTree tree{tree_elements};
  tree.begin({1, 1});
  std::fill_n(tree.next(1), tree_elements, 9.0f);
  tree.put(1);
  std::fill_n(tree.next(0), tree_elements, 9.0f);
  tree.begin({1, 1});
  auto* first = tree.next(0); // several are written at once
  std::fill_n(tree.next(1), tree_elements, 1.0f);
  tree.put(1);
  std::fill_n(first, tree_elements, 2.0f);
  tree.put(0);
  BOOST_TEST(tree.root()[0] == 3.0f);
}

BOOST_AUTO_TEST_SUITE_END()

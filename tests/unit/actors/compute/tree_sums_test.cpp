#include "actors/compute/tree_sums.hpp"
#include "tests/unit/actors/compute/tree_values.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(tree_sums_suite)

namespace {

TreeSums::Sum written_leaf(uint32_t rank) {
  auto held = std::make_shared<SumBuffer>(tree_elements, nullptr);
  for (size_t i = 0; i < tree_elements; ++i)
    held->data()[i] = leaf_value(rank, i);
  return {held->data(), held};
}

TreeSums::Sum sum_by(Executor& executor, TreeSums& sums) {
  std::promise<TreeSums::Sum> sum;
  executor.submit([&] { sum.set_value(sums.whole(executor)); });
  return sum.get_future().get();
}

} // namespace

// Whether what is complete is added at once or all of it at the end.
BOOST_AUTO_TEST_CASE(leaves_of_threads_give_the_bits_of_the_tree) {
  Executor executor{"test", 3};
  std::mt19937 random(6);
  for (uint32_t ranks : {1, 2, 3, 5, 8, 13})
    for (int round = 0; round < 20; ++round) {
      std::vector<uint32_t> samples(ranks);
      for (auto& count : samples)
        count = random() % 3;
      std::vector<uint32_t> order(ranks);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      TreeSums sums{{0, ranks}, tree_elements};
      std::promise<void> done;
      executor.submit([&] {
        executor.parallel_for(ranks, [&](size_t i, uint32_t) {
          const auto rank = order[i];
          sums.put(rank,
                   samples[rank] > 0 ? written_leaf(rank) : TreeSums::Sum{},
                   round % 2 == 0 && i + 1 < ranks);
        });
        done.set_value();
      });
      done.get_future().wait();
      const auto want = tree_sum({0, ranks}, samples);
      const auto found = sum_by(executor, sums);
      BOOST_TEST((found.values == nullptr) == want.empty());
      BOOST_TEST(
        (want.empty() || std::equal(want.begin(), want.end(), found.values)));
    }
}

// As many as the tree is deep, and the one that comes.
BOOST_AUTO_TEST_CASE(few_sums_lie_side_by_side) {
  Executor executor{"test", 1};
  constexpr uint32_t ranks = 64;
  TreeSums sums{{0, ranks}, tree_elements};
  std::vector<std::weak_ptr<SumBuffer>> leaves;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto leaf = written_leaf(rank);
    leaves.emplace_back(leaf.held);
    sums.put(rank, std::move(leaf), rank + 1 < ranks);
    const auto held = std::ranges::count_if(leaves, [](const auto& one) {
      return !one.expired();
    });
    BOOST_TEST(held <= std::bit_width(ranks));
  }
  const auto want = tree_sum({0, ranks}, std::vector<uint32_t>(ranks, 1));
  BOOST_TEST(
    std::equal(want.begin(), want.end(), sum_by(executor, sums).values));
}

BOOST_AUTO_TEST_SUITE_END()

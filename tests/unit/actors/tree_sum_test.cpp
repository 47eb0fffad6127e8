#include "actors/tree_sum.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

using namespace troupe;

namespace {

constexpr uint64_t elements = 9000; // more than two blocks, and a part

TensorView leaf(uint32_t rank) {
  std::vector<float> values(elements);
  for (uint64_t i = 0; i < elements; ++i)
    values[i] = 1.0f / static_cast<float>(1 + (i * 31 + rank * 977) % 1013);
  return TensorView::copy(values);
}

/// The plain reference: recursion over whole tensors.
std::vector<float> reference(RankRange node) {
  if (node.size() == 1) {
    auto values = leaf(node.lo);
    return {values.data(), values.data() + elements};
  }
  auto [left, right] = children(node);
  auto sum = reference(left);
  auto other = reference(right);
  for (uint64_t i = 0; i < elements; ++i)
    sum[i] += other[i];
  return sum;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tree_sums)

BOOST_AUTO_TEST_CASE(any_set_of_nodes_gives_the_bits_of_the_fixed_tree) {
  for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
    const auto expected = reference({0, ranks});
    for (uint32_t workers = 1; workers <= ranks; ++workers) {
      std::map<RankRange, TensorView> given;
      for (uint32_t i = 0; i < workers; ++i)
        for (auto node :
             maximal_nodes(ranks_of_worker(i, workers, ranks), ranks))
          given[node] = TensorView::copy(reference(node));
      std::vector<float> out(elements, -1);
      tree_sum(given, ranks, 0, 4097, out.data()); // cut anywhere
      tree_sum(given, ranks, 4097, elements, out.data());
      BOOST_TEST((out == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_leaf_is_the_identity_and_not_a_zero) {
  std::map<RankRange, TensorView> given;
  std::vector<float> negative_zero(elements, -0.0f);
  given[{0, 1}] = {};
  given[{1, 2}] = TensorView::copy(negative_zero);
  given[{2, 3}] = {};
  std::vector<float> out(elements, 1);
  tree_sum(given, 3, 0, elements, out.data());
  BOOST_TEST(std::signbit(out[0])); // +0.0 + -0.0 would have lost the sign
}

BOOST_AUTO_TEST_SUITE_END()

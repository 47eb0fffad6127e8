#include "strategies/tree_addends.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(tree_addends_)

namespace {

constexpr uint32_t max_ranks = 17;

/// The tree over ranks, in words; empty for the identity.
std::string words(RankRange node, const std::vector<bool>& filled) {
  if (node.size() == 1)
    return filled[node.lo] ? std::to_string(node.lo) : "";
  auto [left, right] = children(node);
  auto a = words(left, filled);
  auto b = words(right, filled);
  if (a.empty() || b.empty())
    return a + b;
  return "(" + a + "+" + b + ")";
}

/// What a machine with a stack makes of the addends.
std::string run(const std::vector<TreeAddend>& addends,
                const std::vector<std::vector<RankRange>>& nodes,
                const std::vector<bool>& filled) {
  std::vector<std::string> stack;
  for (const auto& addend : addends) {
    stack.push_back(words(nodes[addend.member][addend.node], filled));
    for (uint32_t i = 0; i < addend.merges; ++i) {
      auto right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  BOOST_TEST(stack.size() <= 1);
  return stack.empty() ? "" : stack.front();
}

std::vector<bool> filled_by(uint32_t samples, uint32_t ranks) {
  std::vector<bool> filled;
  for (uint64_t v = 0; v < ranks; ++v)
    filled.push_back(v * samples / ranks < (v + 1) * samples / ranks);
  return filled;
}

} // namespace

BOOST_AUTO_TEST_CASE(addends_sum_the_fixed_tree_for_any_members_and_samples) {
  for (uint32_t ranks = 1; ranks <= max_ranks; ++ranks)
    for (uint32_t members = 1; members <= ranks; ++members)
      for (uint32_t wanted : {1, 2, 3, 4, 16})
        for (uint32_t samples : {ranks, ranks - 1, ranks / 2 + 1, 1u, 0u}) {
          std::vector<std::vector<RankRange>> nodes;
          for (uint32_t m = 0; m < members; ++m)
            nodes.push_back(split_nodes(
              maximal_nodes(ranks_of_worker(m, members, ranks), ranks),
              wanted));
          auto filled = filled_by(samples, ranks);
          BOOST_TEST(run(tree_addends(nodes, filled), nodes, filled)
                     == words({0, ranks}, filled));
        }
}

BOOST_AUTO_TEST_CASE(members_may_hold_ranks_in_any_order) {
  std::vector<std::vector<RankRange>> nodes{{{4, 8}}, {{0, 2}, {2, 4}}};
  std::vector<TreeAddend> expected{{1, 0, 0}, {1, 1, 1}, {0, 0, 1}};
  BOOST_TEST((tree_addends(nodes, filled_by(8, 8)) == expected));
}

BOOST_AUTO_TEST_CASE(a_split_gives_the_wanted_number_or_leaves) {
  for (uint32_t ranks = 1; ranks <= max_ranks; ++ranks)
    for (uint32_t wanted = 1; wanted <= max_ranks; ++wanted) {
      auto nodes = split_nodes({{0, ranks}}, wanted);
      BOOST_TEST(nodes.size() == std::min(wanted, ranks));
      uint32_t next = 0;
      for (auto node : nodes) {
        BOOST_TEST(is_node(node, ranks));
        BOOST_TEST(node.lo == next);
        next = node.hi;
      }
      BOOST_TEST(next == ranks);
    }
}

BOOST_AUTO_TEST_SUITE_END()

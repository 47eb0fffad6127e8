#include "kernels/base/buffer.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/leaf_stack.hpp"
#include "kernels/cpu/nonzero_matrix.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/every_isa.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stacked_leaves)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

std::vector<float> draw(size_t count, double zeros, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::bernoulli_distribution drop(zeros);
  std::vector<float> result(count);
  for (auto& value : result)
    value = drop(random) ? 0.0f : values(random);
  return result;
}

/// ((0 1) (2 3)) 4, less where there are fewer; the tree of virtual ranks.
std::vector<StackedLeaf> tree_of(const std::vector<uint32_t>& rows) {
  std::vector<StackedLeaf> leaves;
  leaves.reserve(rows.size());
  for (auto count : rows)
    leaves.push_back({count, leaves.size(), 0});
  for (size_t i = 1; i < leaves.size(); i += 2)
    ++leaves[i].merges;
  if (leaves.size() > 2)
    ++leaves[std::min<size_t>(leaves.size() - 1, 3)].merges;
  if (leaves.size() > 4)
    ++leaves[4].merges;
  return leaves;
}

const std::vector<std::vector<uint32_t>> some_rows = {{5},
                                                      {16, 16},
                                                      {7, 1, 9},
                                                      {64, 64, 64, 64},
                                                      {50, 49, 50, 49, 50}};

/// What one leaf after another gives, summed along the tree.
template <class Leaf>
void by_leaves(const std::vector<StackedLeaf>& leaves, float* result,
               size_t count, const Leaf& leaf) {
  std::vector<std::vector<float>> sums;
  size_t first = 0;
  for (const auto& at : leaves) {
    sums.emplace_back(count, not_a_number);
    leaf(at, first, sums.back().data());
    first += at.rows;
    for (uint32_t i = 0; i < at.merges; ++i) {
      const auto right = sums.back();
      sums.pop_back();
      for (size_t k = 0; k < count; ++k)
        sums.back()[k] += right[k];
    }
  }
  BOOST_REQUIRE(sums.size() == 1u);
  std::copy(sums[0].begin(), sums[0].end(), result);
}

void check_model(const std::string& model, const std::vector<uint32_t>& rows,
                 double zeros) {
  const auto graph = make_graph(model);
  const Layout layout(graph);
  const auto leaves = tree_of(rows);
  uint32_t all = 0;
  for (auto count : rows)
    all += count;
  std::vector<float> parameters(layout.total, 0.0f);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    initialize(graph, 11, i, 0, parameters.data() + layout.offsets[i],
               graph.parameters[i].size());
  const auto features = draw(all * graph.features(), zeros, 1);
  std::mt19937 random(2);
  std::vector<int32_t> labels(all);
  for (auto& label : labels)
    label = static_cast<int32_t>(random() % graph.classes());
  Batch batch;
  batch.features = features.data();
  batch.labels = labels.data();
  batch.rows = all;

  const auto replica = make_replica(graph, {}, all);
  std::vector<LeafStats> alone;
  std::vector<float> want(layout.total);
  by_leaves(leaves, want.data(), want.size(),
            [&](const StackedLeaf& leaf, size_t first, float* gradient) {
              std::fill_n(gradient, layout.total, 0.0f); // and the gaps
              Batch part = batch;
              part.features += first * graph.features();
              part.labels += first;
              part.rows = leaf.rows;
              alone.push_back(
                replica->gradient(parameters.data(), part, gradient));
            });
  Buffer found(layout.total);
  found.fill(0);
  std::vector<int> told(graph.parameters.size(), 0);
  const auto stats = replica->gradient(
    parameters.data(), batch, leaves, found.data(), [&](uint32_t i) {
      ++told[i];
      const auto at = layout.offsets[i];
      BOOST_TEST(std::memcmp(found.data() + at, want.data() + at,
                             graph.parameters[i].size() * sizeof(float))
                   == 0,
                 graph.parameters[i].name);
    });
  BOOST_TEST(told == std::vector<int>(told.size(), 1),
             boost::test_tools::per_element());
  BOOST_REQUIRE(stats.size() == alone.size());
  for (size_t i = 0; i < stats.size(); ++i) {
    BOOST_TEST(stats[i].loss_sum == alone[i].loss_sum);
    BOOST_TEST(stats[i].correct == alone[i].correct);
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(sums_of_leaves_go_up_the_tree) {
  for (const auto& rows : some_rows) {
    const auto leaves = tree_of(rows);
    std::vector<float> want(1000);
    by_leaves(leaves, want.data(), want.size(),
              [&](const StackedLeaf& leaf, size_t, float* to) {
                const auto sum = draw(1000, 0, static_cast<uint32_t>(leaf.key));
                std::copy(sum.begin(), sum.end(), to);
              });
    std::vector<float> found(1000, not_a_number);
    std::vector<Buffer> spare;
    LeafStack stack{found.data(), found.size(), spare};
    for (const auto& leaf : leaves) {
      const auto sum = draw(1000, 0, static_cast<uint32_t>(leaf.key));
      std::copy(sum.begin(), sum.end(), stack.push());
      stack.merge(leaf.merges);
    }
    BOOST_TEST(found == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(products_of_leaves_are_those_of_each_summed) {
  constexpr BreakEven left_out = {1, 1, 1, 1};
  constexpr BreakEven multiplied = {-1, -1, -1, -1};
  for_every_isa([&](Isa) {
    for (const auto& rows : some_rows)
      for (const auto& rates : {left_out, multiplied})
        for (size_t columns : {1, 37, 200})
          for (size_t n : {64, 79, 130}) {
            const auto leaves = tree_of(rows);
            size_t all = 0;
            for (const auto& leaf : leaves)
              all += leaf.rows;
            const auto a = draw(all * columns, 0.6, 1);
            const auto b = draw(all * n, 0, 2);
            std::vector<float> want(columns * n);
            NonzeroMatrix matrix{rates};
            size_t elements = 0;
            by_leaves(leaves, want.data(), want.size(),
                      [&](const StackedLeaf& leaf, size_t first, float* c) {
                        const auto* part = a.data() + first * columns;
                        BOOST_REQUIRE(
                          matrix.take(part, leaf.rows, columns, n, 1));
                        elements += matrix.found();
                        matrix.multiply_transposed(part, b.data() + first * n,
                                                   n, c, false);
                      });
            std::vector<float> found(columns * n, not_a_number);
            matrix.join(all, columns, elements);
            matrix.multiply_leaves(leaves, a.data(), b.data(), n, found.data());
            BOOST_TEST(std::memcmp(found.data(), want.data(),
                                   want.size() * sizeof(float))
                       == 0);
          }
  });
}

BOOST_AUTO_TEST_CASE(one_pass_gives_what_one_leaf_after_another_gives) {
  for (const auto& rows : some_rows)
    for (double zeros : {0.0, 0.5, 0.9}) {
      check_model("mlp:300-130-96-10", rows, zeros);
      check_model("mlp:70-3", rows, zeros);
    }
  // Some leaves with many zeros, some without.
  check_model("mlp:300-200-10", {64, 64, 64, 64}, 0.35);
  check_model("mlp:300-200-10", {64, 20, 64, 47}, 0.5);
}

BOOST_AUTO_TEST_CASE(graphs_whose_rows_are_not_alone_do_not_stack) {
  BOOST_TEST(stacks(make_graph("mlp:4-3")));
  SampleShape image;
  image.features = {12, 12, 1};
  image.classes = 3;
  BOOST_TEST(!stacks(make_graph("cnn", image)));
  BOOST_TEST(stacked_rows(make_graph("mlp:4-3"), {}) > 0u);
  BOOST_TEST(stacked_rows(make_graph("cnn", image), {}) == 0u);
  BOOST_TEST(stacked_rows(make_graph("mlp:4-3"), {DeviceId::Kind::cuda, 0})
             == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

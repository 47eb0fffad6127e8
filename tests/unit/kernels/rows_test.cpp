#include "kernels/optimizer/rows.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <random>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(rows_test)

namespace {

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size()
         && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A table of 50 rows with state.
struct Table {
  explicit Table(size_t width)
    : values(random_values(50 * width, 1)),
      state(random_values(2 * 50 * width, 2)) {
    for (auto& value : state)
      value *= value;
  }

  UpdateArgs args() {
    UpdateArgs args;
    args.samples = 48;
    args.step = 3;
    args.learning_rate = 0.1f;
    args.in = args.out = values.data();
    args.state_in = args.state_out = state.data();
    args.state_stride = values.size();
    args.count = values.size();
    return args;
  }

  std::vector<float> values;
  std::vector<float> state;
};

} // namespace

BOOST_AUTO_TEST_CASE(equal_ids_are_summed_in_the_order_of_the_samples) {
  const std::vector<int32_t> ids{7, -1, 3, 7, 7, 0, 3};
  const float big = 16777216.0f; // swallows a 1
  const float rows[7][2] = {{big, 1}, {9, 9}, {2, 2}, {1, 1},
                            {1, big}, {4, 4}, {5, 5}};
  const auto sums = sum_equal_ids(ids, &rows[0][0], 2);
  BOOST_TEST(sums.ids == (std::vector<uint64_t>{0, 3, 7}));
  BOOST_TEST(sums.values == (std::vector<float>{4, 4, 7, 7, big, big + 2}));
}

BOOST_AUTO_TEST_CASE(a_lone_row_keeps_its_negative_zeros) {
  const std::vector<int32_t> ids{4};
  const std::vector<float> row{-0.0f, 1.0f};
  BOOST_TEST(same_bits(sum_equal_ids(ids, row.data(), 2).values, row));
}

BOOST_AUTO_TEST_CASE(present_rows_are_taken_out_of_a_dense_gradient) {
  const std::vector<int32_t> ids{3, -1, 1, 3};
  const std::vector<float> gradient{0, 0, 1, 2, 0, 0, -0.0f, 4};
  const SparseRows want{{1, 3}, {1, 2, -0.0f, 4}, 2};
  const auto found = take_rows(ids, gradient.data(), 2);
  BOOST_TEST(found.ids == want.ids);
  BOOST_TEST(same_bits(found.values, want.values));
}

BOOST_AUTO_TEST_CASE(nodes_are_added_row_by_row) {
  const SparseRows left{{1, 4, 6}, {1, 1, 2, 2, -0.0f, 3}, 2};
  const SparseRows right{{0, 4, 9}, {5, 5, 6, 6, 7, 7}, 2};
  const SparseRows want{{0, 1, 4, 6, 9}, {5, 5, 1, 1, 8, 8, -0.0f, 3, 7, 7}, 2};
  BOOST_TEST((sum_rows(left, right) == want));
  BOOST_TEST(same_bits(sum_rows(left, right).values, want.values));
  const SparseRows none{{}, {}, 2};
  BOOST_TEST((sum_rows(left, none) == left));
  BOOST_TEST((sum_rows(none, right) == right));
}

BOOST_AUTO_TEST_CASE(rows_have_the_bits_of_a_dense_update_of_each_alone) {
  for (size_t kind = 0; kind <= static_cast<size_t>(OptimizerKind::lamb);
       ++kind)
    for (size_t width : {1, 3, 16, 65}) {
      OptimizerOptions options;
      options.kind = static_cast<OptimizerKind>(kind);
      options.weight_decay = 0.02f;
      SparseRows gradient;
      gradient.ids = {0, 3, 4, 5, 17, 30, 31, 49};
      gradient.width = width;
      gradient.values = random_values(gradient.ids.size() * width, 9);
      Table found{width};
      update_rows(options, found.args(), gradient);
      Table want{width};
      for (size_t i = 0; i < gradient.ids.size(); ++i) {
        auto args = want.args();
        args.gradient_sum = gradient.values.data() + i * width;
        args.in = args.out = want.values.data() + gradient.ids[i] * width;
        args.state_in = args.state_out = want.state.data()
                                         + gradient.ids[i] * width;
        args.count = width;
        update(options, args);
      }
      BOOST_TEST_CONTEXT(to_string(options.kind) << " width " << width) {
        BOOST_TEST(same_bits(found.values, want.values));
        BOOST_TEST(same_bits(found.state, want.state));
        BOOST_TEST(!same_bits(found.values, Table{width}.values));
      }
    }
}

BOOST_AUTO_TEST_CASE(many_steps_of_rows_follow_the_dense_rule) {
  // Of Adagrad, which leaves values without a gradient alone, the dense update
  // with zeros in place of absent rows is the same.
  OptimizerOptions options;
  options.kind = OptimizerKind::adagrad;
  const size_t width = 5;
  Table sparse{width};
  Table dense{width};
  std::mt19937 random(4);
  for (uint32_t step = 1; step <= 20; ++step) {
    std::vector<int32_t> ids(13);
    for (auto& id : ids)
      id = static_cast<int32_t>(random() % 50);
    const auto gradient =
      sum_equal_ids(ids, random_values(ids.size() * width, step).data(), width);
    update_rows(options, sparse.args(), gradient);
    std::vector<float> all(50 * width, 0.0f);
    for (size_t i = 0; i < gradient.ids.size(); ++i)
      std::copy_n(gradient.values.begin() + static_cast<ptrdiff_t>(i * width),
                  width, all.begin() + gradient.ids[i] * width);
    auto args = dense.args();
    args.gradient_sum = all.data();
    update(options, args);
  }
  BOOST_TEST(same_bits(sparse.values, dense.values));
  BOOST_TEST(same_bits(sparse.state, dense.state));
}

BOOST_AUTO_TEST_SUITE_END()

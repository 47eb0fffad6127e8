#include "kernels/cpu/isa.hpp"
#include "kernels/optimizer/norms.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "tests/unit/kernels/recorded_bits.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(norms_test)

namespace {

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinity = std::numeric_limits<double>::infinity();

const size_t counts[] = {1, 3, 15, 16, 17, 4095, 4096, 4097, 3 * 4096 + 59};

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  return values;
}

std::vector<double> blocks_of(const float* values, size_t count) {
  std::vector<double> blocks(norm_blocks(count), not_a_number);
  square_sum_blocks(values, count, blocks.data());
  return blocks;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size()
         && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// The order that the sums promise, written out.
double plain_block(const float* values, size_t count) {
  double sums[16] = {};
  for (size_t i = 0; i < count; ++i)
    sums[i % 16] += double{values[i]} * values[i];
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i)
      sums[i] += sums[i + width];
  return sums[0];
}

/// A variable in the middle of training with LAMB.
struct Variable {
  explicit Variable(size_t count, size_t offset = 0)
    : count(count), offset(offset) {
    for (uint32_t i = 0; i < 4; ++i) {
      auto drawn = random_values(count, i + 1);
      if (i == 3)
        for (auto& value : drawn)
          value *= value;
      drawn.insert(drawn.begin(), offset, 0.0f);
      auto& to = i == 0 ? gradient : i == 1 ? values : state;
      to.insert(to.end(), drawn.begin(), drawn.end());
    }
  }

  UpdateArgs args() const {
    UpdateArgs args;
    args.gradient_sum = gradient.data() + offset;
    args.samples = 48;
    args.step = 3;
    args.gradient_scale = 0.25f;
    args.learning_rate = 0.5f;
    args.in = values.data() + offset;
    args.state_in = state.data() + offset;
    args.state_stride = count + offset;
    args.count = count;
    return args;
  }

  size_t count;
  size_t offset;
  std::vector<float> gradient;
  std::vector<float> values;
  std::vector<float> state;
};

OptimizerOptions lamb_options() {
  OptimizerOptions options;
  options.kind = OptimizerKind::lamb;
  options.weight_decay = 0.02f;
  return options;
}

struct LambBlocks {
  explicit LambBlocks(const UpdateArgs& args)
    : values(norm_blocks(args.count), not_a_number), directions(values) {
    lamb_square_sum_blocks(lamb_options(), args, values.data(),
                           directions.data());
  }
  std::vector<double> values;
  std::vector<double> directions;
};

/// Puts the loops that were selected back.
struct SelectedLoops {
  kernels::Isa kept = kernels::selected_isa();
  ~SelectedLoops() { kernels::select_loops(kept); }
};

} // namespace

BOOST_AUTO_TEST_CASE(square_sums_have_the_order_they_promise) {
  for (auto count : counts) {
    const auto values = random_values(count, 7);
    std::vector<double> want;
    for (size_t i = 0; i < count; i += norm_block)
      want.push_back(
        plain_block(values.data() + i, std::min(norm_block, count - i)));
    BOOST_TEST(same_bits(blocks_of(values.data(), count), want));
  }
}

BOOST_AUTO_TEST_CASE(sums_of_squares_are_near_a_plain_sum) {
  const auto values = random_values(100'003, 8);
  long double want = 0;
  for (auto value : values)
    want += static_cast<long double>(value) * value;
  const auto found = tree_sum(blocks_of(values.data(), values.size()));
  BOOST_TEST(std::abs(found / static_cast<double>(want) - 1) < 1e-14);
}

BOOST_AUTO_TEST_CASE(slices_of_whole_blocks_give_the_blocks_of_the_whole) {
  const size_t count = 5 * norm_block + 100;
  const auto values = random_values(count, 9);
  const auto whole = blocks_of(values.data(), count);
  for (size_t cut = 1; cut <= 5; ++cut) {
    auto cut_at = first_norm_block(cut * norm_block) * norm_block;
    auto pieces = blocks_of(values.data(), cut_at);
    for (auto block : blocks_of(values.data() + cut_at, count - cut_at))
      pieces.push_back(block);
    BOOST_TEST(same_bits(pieces, whole));
  }
}

BOOST_AUTO_TEST_CASE(place_and_instruction_set_do_not_change_square_sums) {
  SelectedLoops restore;
  const size_t count = norm_block + 77;
  const auto values = random_values(count, 10);
  const auto want = blocks_of(values.data(), count);
  troupe::test::record_bits_of("square sums", want);
  for (auto isa : kernels::every_isa) {
    if (!kernels::has_isa(isa)) {
      BOOST_TEST_MESSAGE(kernels::name_of(isa) << " is not supported here");
      continue;
    }
    kernels::select_loops(isa);
    for (size_t offset = 0; offset < 16; ++offset) {
      std::vector<float> moved(offset, 0.0f);
      moved.insert(moved.end(), values.begin(), values.end());
      BOOST_REQUIRE(same_bits(blocks_of(moved.data() + offset, count), want));
    }
  }
}

BOOST_AUTO_TEST_CASE(infinities_and_nan_show_in_the_sum) {
  std::vector<float> values(40, 1.0f);
  values[33] = -std::numeric_limits<float>::infinity();
  BOOST_TEST(blocks_of(values.data(), 40)[0] == infinity);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(std::isnan(blocks_of(values.data(), 40)[0]));
  values.assign(40, std::numeric_limits<float>::max());
  BOOST_TEST(std::isfinite(blocks_of(values.data(), 40)[0]));
}

BOOST_AUTO_TEST_CASE(lambs_norms_are_those_of_what_its_update_does) {
  for (auto count : counts) {
    const Variable variable{count};
    const LambBlocks blocks{variable.args()};
    BOOST_TEST(
      same_bits(blocks.values, blocks_of(variable.values.data(), count)));
    // The direction from the update itself: a large rate loses few bits.
    std::vector<float> out(count);
    std::vector<float> state(2 * count);
    auto args = variable.args();
    args.learning_rate = 1024;
    args.out = out.data();
    args.state_out = state.data();
    update(lamb_options(), args);
    double squares = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto u = (double{variable.values[i]} - out[i]) / 1024;
      squares += u * u;
    }
    BOOST_TEST(std::abs(tree_sum(blocks.directions) / squares - 1) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(place_and_instruction_set_do_not_change_lambs_norms) {
  SelectedLoops restore;
  const size_t count = norm_block + 77;
  const LambBlocks want{Variable{count}.args()};
  troupe::test::record_bits_of("lamb", want.values, want.directions);
  for (auto isa : kernels::every_isa) {
    if (!kernels::has_isa(isa))
      continue;
    kernels::select_loops(isa);
    for (size_t offset = 0; offset < 16; ++offset) {
      const Variable moved{count, offset};
      const LambBlocks found{moved.args()};
      BOOST_REQUIRE(same_bits(found.values, want.values));
      BOOST_REQUIRE(same_bits(found.directions, want.directions));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_tree_splits_at_the_largest_power_of_two_below) {
  // 2^53 swallows a 1 added to it: the order shows.
  const double big = 9007199254740992.0;
  BOOST_TEST(tree_sum({}) == 0.0);
  BOOST_TEST(tree_sum(std::vector{3.5}) == 3.5);
  // (big + 1) + 1 and big + (1 + 1)
  BOOST_TEST(tree_sum(std::vector{big, 1.0, 1.0}) == big);
  BOOST_TEST(tree_sum(std::vector{1.0, 1.0, big}) == big + 2);
  const std::vector v{0.1, 7e5, -0.3, 1e-9, 3e5, 0.7, 1e8};
  const auto four = (v[0] + v[1]) + (v[2] + v[3]);
  BOOST_TEST(tree_sum(std::span{v}.first(5)) == four + v[4]);
  BOOST_TEST(tree_sum(std::span{v}.first(6)) == four + (v[4] + v[5]));
  BOOST_TEST(tree_sum(v) == four + ((v[4] + v[5]) + v[6]));
  BOOST_TEST(tree_sum(std::vector<double>(1000, 1.0)) == 1000.0);
}

BOOST_AUTO_TEST_CASE(variables_are_taken_in_order_of_name_without_statistics) {
  Graph graph;
  for (const auto* name : {"b/weight", "a/weight", "c/mean", "a/bias"}) {
    Parameter parameter;
    parameter.name = name;
    parameter.role = parameter.name == "c/mean" ? ParameterRole::statistic
                                                : ParameterRole::trained;
    graph.parameters.push_back(parameter);
  }
  BOOST_TEST(order_by_name(graph) == (std::vector<uint32_t>{3, 1, 0}));
}

BOOST_AUTO_TEST_CASE(only_a_norm_above_the_limit_scales) {
  BOOST_TEST(clip_scale(0, 1) == 1.0f);
  BOOST_TEST(clip_scale(1, 1) == 1.0f);
  BOOST_TEST(clip_scale(4, 1) == static_cast<float>(1 / (4 + 1e-6)));
  BOOST_TEST(clip_scale(infinity, 1) == 0.0f);
  BOOST_TEST(std::isnan(clip_scale(not_a_number, 1)));
  BOOST_TEST(mean_norm(16, 8) == 0.5);
}

BOOST_AUTO_TEST_CASE(a_norm_of_zero_means_a_trust_ratio_of_one) {
  BOOST_TEST(trust_ratio(16, 4) == 2.0f);
  BOOST_TEST(trust_ratio(0, 4) == 1.0f);
  BOOST_TEST(trust_ratio(16, 0) == 1.0f);
}

BOOST_AUTO_TEST_CASE(rounds_of_scalars_are_counted) {
  BOOST_TEST(scalar_rounds(OptimizerKind::adam, false) == 0u);
  BOOST_TEST(scalar_rounds(OptimizerKind::adam, true) == 1u);
  BOOST_TEST(scalar_rounds(OptimizerKind::lamb, false) == 1u);
  BOOST_TEST(scalar_rounds(OptimizerKind::lamb, true) == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

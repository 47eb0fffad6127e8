#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/optimizer/norms.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "tests/unit/kernels/optimizer_reference.hpp"
#include "tests/unit/kernels/recorded_bits.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(optimizer_test)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

const OptimizerKind kinds[] = {
  OptimizerKind::sgd,     OptimizerKind::momentum, OptimizerKind::nesterov,
  OptimizerKind::adam,    OptimizerKind::adamw,    OptimizerKind::adagrad,
  OptimizerKind::rmsprop, OptimizerKind::ftrl,     OptimizerKind::lamb,
};

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  return values;
}

/// Parameters and state of one rule after a few steps.
struct Trained {
  std::vector<float> values;
  std::vector<float> state;

  bool operator==(const Trained& other) const {
    return std::memcmp(values.data(), other.values.data(),
                       values.size() * sizeof(float))
             == 0
           && (state.empty()
               || std::memcmp(state.data(), other.state.data(),
                              state.size() * sizeof(float))
                    == 0);
  }
};

/// The trust ratio of one variable of fewer elements than a block; 1 of other
/// rules.
float lamb_trust(const OptimizerOptions& options, uint64_t step,
                 const std::vector<float>& gradient, float samples,
                 const float* values, const float* state, size_t stride) {
  if (options.kind != OptimizerKind::lamb)
    return 1;
  UpdateArgs args;
  args.gradient_sum = gradient.data();
  args.samples = samples;
  args.step = step;
  args.in = values;
  args.state_in = state;
  args.state_stride = stride;
  args.count = gradient.size();
  double value_squares = not_a_number;
  double direction_squares = not_a_number;
  lamb_square_sum_blocks(options, args, &value_squares, &direction_squares);
  return trust_ratio(value_squares, direction_squares);
}

/// Trains `count` values that start `offset` elements into a cache line, in
/// slices of up to `cut`, from one buffer into another or in place.
Trained train(const OptimizerOptions& options, size_t count, size_t offset,
              size_t cut, bool in_place, float samples = 48) {
  const auto slots = state_slots(options.kind);
  const auto stride = count + offset;
  auto values = random_values(count, 1);
  values.insert(values.begin(), offset, 0.0f);
  std::vector<float> state(slots * stride, 0.0f);
  for (uint64_t step = 1; step <= 4; ++step) {
    auto gradient = random_values(count, 100 + static_cast<uint32_t>(step));
    for (auto& g : gradient)
      g *= samples;
    std::vector<float> next(values.size(), not_a_number);
    std::vector<float> next_state(state.size(), not_a_number);
    const auto trust = lamb_trust(options, step, gradient, samples,
                                  values.data() + offset, state.data() + offset,
                                  stride);
    for (size_t begin = 0; begin < count; begin += cut) {
      UpdateArgs args;
      args.trust_ratio = trust;
      args.gradient_sum = gradient.data() + begin;
      args.samples = samples;
      args.step = step;
      args.learning_rate = 0.01f;
      args.in = values.data() + offset + begin;
      args.out = in_place ? values.data() + offset + begin
                          : next.data() + offset + begin;
      if (slots > 0) {
        args.state_in = state.data() + offset + begin;
        args.state_out = in_place ? state.data() + offset + begin
                                  : next_state.data() + offset + begin;
      }
      args.state_stride = stride;
      args.count = std::min(cut, count - begin);
      update(options, args);
    }
    if (!in_place) {
      values = next;
      state = next_state;
    }
  }
  Trained result;
  result.values.assign(values.begin() + static_cast<ptrdiff_t>(offset),
                       values.end());
  for (uint32_t slot = 0; slot < slots; ++slot)
    for (size_t i = 0; i < count; ++i)
      result.state.push_back(state[slot * stride + offset + i]);
  return result;
}

/// Every rule, without and with weight decay; FTRL also with l1 and l2.
std::vector<OptimizerOptions> all_options() {
  std::vector<OptimizerOptions> result;
  for (auto kind : kinds)
    for (auto decay : {0.0f, 0.02f}) {
      OptimizerOptions options;
      options.kind = kind;
      options.weight_decay = decay;
      result.push_back(options);
    }
  OptimizerOptions sparse;
  sparse.kind = OptimizerKind::ftrl;
  sparse.l1 = 40.0f;
  sparse.l2 = 30.0f;
  sparse.ftrl_beta = 0.1f;
  result.push_back(sparse);
  return result;
}

/// What an update makes of a few values, after a step that left state.
std::vector<float> one_update(const OptimizerOptions& options,
                              const UpdateArgs& changes) {
  const size_t count = 37;
  const auto values = random_values(count, 1);
  const auto gradient = random_values(count, 2);
  auto state = random_values(2 * count, 3);
  for (auto& value : state)
    value = std::abs(value);
  std::vector<float> next_state(2 * count, not_a_number);
  std::vector<float> out(count, not_a_number);
  auto args = changes;
  args.gradient_sum = gradient.data();
  args.samples = 8;
  args.step = 2;
  args.in = values.data();
  args.out = out.data();
  args.state_in = state.data();
  args.state_out = next_state.data();
  args.state_stride = count;
  args.count = count;
  update(options, args);
  return out;
}

/// Puts the table that was selected back.
struct SelectedLoops {
  kernels::Isa kept = kernels::selected_isa();
  ~SelectedLoops() { kernels::select_loops(kept); }
};

} // namespace

BOOST_AUTO_TEST_CASE(names_are_read_and_written) {
  for (auto kind : kinds)
    if (kind != OptimizerKind::lamb)
      BOOST_TEST((parse_optimizer(to_string(kind)) == kind));
  BOOST_TEST(state_slots(OptimizerKind::sgd) == 0u);
  BOOST_TEST(state_slots(OptimizerKind::adam) == 2u);
  BOOST_TEST(state_name(OptimizerKind::adam, 0) == "adam_m");
  BOOST_TEST(state_name(OptimizerKind::adam, 1) == "adam_v");
  BOOST_CHECK_EXCEPTION(
    parse_optimizer("sdg"), UsageError, [](const UsageError& error) {
      return std::string(error.what()).find("sgd, momentum") //
             != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(every_rule_follows_its_float64_reference) {
  const size_t count = 101;
  for (const auto& options : all_options())
    for (float samples : {1.0f, 48.0f, 64.0f}) {
      BOOST_TEST_CONTEXT(to_string(options.kind)
                         << " decay " << options.weight_decay << " samples "
                         << samples) {
        auto trained = train(options, count, 0, count, false, samples);
        auto start = random_values(count, 1);
        std::vector<double> values(start.begin(), start.end());
        std::vector<double> state(2 * count, 0.0);
        for (uint64_t step = 1; step <= 4; ++step)
          reference_update(options, 0.01f, step,
                           random_values(count,
                                         100 + static_cast<uint32_t>(step)),
                           values, state);
        check_within({2e-7, 1e-6}, trained.values, values, count);
        const auto slots = state_slots(options.kind);
        for (uint32_t slot = 0; slot < slots; ++slot) {
          std::vector<double> want(count);
          for (size_t i = 0; i < count; ++i)
            want[i] = state[slot * count + i];
          check_within({1e-6, 1e-6}, trained.state.data() + slot * count, want,
                       count);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(cut_anywhere_is_the_same_as_whole_bit_for_bit) {
  const size_t count = 83;
  for (const auto& options : all_options()) {
    auto whole = train(options, count, 0, count, false);
    for (size_t cut = 1; cut <= count; ++cut)
      BOOST_REQUIRE(train(options, count, 0, cut, false) == whole);
  }
}

BOOST_AUTO_TEST_CASE(the_place_of_the_values_does_not_change_their_bits) {
  const size_t count = 83;
  for (const auto& options : all_options()) {
    auto first = train(options, count, 0, count, false);
    for (size_t offset = 0; offset < 16; ++offset)
      for (bool in_place : {false, true})
        BOOST_REQUIRE(train(options, count, offset, 29, in_place) == first);
  }
}

BOOST_AUTO_TEST_CASE(every_instruction_set_gives_the_same_bits) {
  using namespace troupe::kernels;
  SelectedLoops restore;
  for (const auto& options : all_options())
    for (float samples : {7.0f, 64.0f}) {
      auto first = train(options, 1009, 0, 1009, false, samples);
      record_bits_of(to_string(options.kind), first.values, first.state);
      for (auto isa : every_isa) {
        if (!has_isa(isa)) {
          BOOST_TEST_MESSAGE(name_of(isa) << " is not supported here");
          continue;
        }
        select_loops(isa);
        BOOST_REQUIRE(train(options, 1009, 0, 1009, false, samples) == first);
      }
    }
}

BOOST_AUTO_TEST_CASE(the_gradient_is_divided_as_written) {
  OptimizerOptions options;
  options.kind = OptimizerKind::sgd;
  const auto gradient = random_values(64, 3);
  const std::vector<float> zeros(64, 0.0f);
  for (float samples : {1.0f, 3.0f, 64.0f, 1000.0f, 1e-30f, 0x1p127f}) {
    std::vector<float> out(64, not_a_number);
    UpdateArgs args;
    args.gradient_sum = gradient.data();
    args.samples = samples;
    args.learning_rate = 1;
    args.in = zeros.data();
    args.out = out.data();
    args.count = 64;
    update(options, args);
    for (size_t i = 0; i < 64; ++i)
      BOOST_REQUIRE_EQUAL(out[i], 0.0f - gradient[i] / samples);
  }
}

BOOST_AUTO_TEST_CASE(a_clipped_gradient_is_scaled_before_the_rule) {
  const auto values = random_values(37, 1);
  const auto gradient = random_values(37, 2);
  OptimizerOptions options;
  options.kind = OptimizerKind::sgd;
  options.weight_decay = 0.1f;
  UpdateArgs args;
  args.learning_rate = 0.5f;
  args.gradient_scale = 0.3f;
  const auto out = one_update(options, args);
  for (size_t i = 0; i < out.size(); ++i) {
    const float g = gradient[i] / 8 * 0.3f + 0.1f * values[i];
    BOOST_REQUIRE_EQUAL(out[i], values[i] - 0.5f * g);
  }
}

BOOST_AUTO_TEST_CASE(weight_decay_leaves_out_what_does_not_decay) {
  for (auto kind : kinds) {
    OptimizerOptions plain;
    plain.kind = kind;
    auto decaying = plain;
    decaying.weight_decay = 0.1f;
    UpdateArgs bias;
    Parameter parameter;
    parameter.decays = false;
    set_parameter(bias, parameter);
    BOOST_TEST_CONTEXT(to_string(kind)) {
      BOOST_TEST(one_update(decaying, bias) == one_update(plain, {}));
      BOOST_TEST(one_update(decaying, {}) != one_update(plain, {}));
    }
  }
}

// Every third element has no gradient, and every sixth one of -0.
BOOST_AUTO_TEST_CASE(a_lazy_update_leaves_what_has_no_gradient_as_it_is) {
  constexpr size_t count = 1037; // vectors and a tail
  const auto values = random_values(count, 1);
  const auto momentum = random_values(2 * count, 2);
  auto state = momentum;
  for (auto& s : state)
    s = std::abs(s);
  auto gradient = random_values(count, 3);
  for (size_t i = 0; i < count; i += 3)
    gradient[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (const auto& options : all_options())
    for (float samples : {8.0f, 12.0f})
      BOOST_TEST_CONTEXT(to_string(options.kind) << ' ' << samples) {
        const auto slots = state_slots(options.kind);
        const auto updated = [&](bool lazy) {
          Trained out{std::vector<float>(count, not_a_number),
                      std::vector<float>(slots * count, not_a_number)};
          UpdateArgs args;
          args.lazy = lazy;
          args.gradient_sum = gradient.data();
          args.samples = samples;
          args.step = 7;
          args.in = values.data();
          args.out = out.values.data();
          args.state_in = slots > 0 ? state.data() : nullptr;
          args.state_out = slots > 0 ? out.state.data() : nullptr;
          args.state_stride = count;
          args.count = count;
          update(options, args);
          return out;
        };
        const auto lazy = updated(true);
        const auto exact = updated(false);
        for (size_t i = 0; i < count; ++i) {
          const bool idle = i % 3 == 0;
          BOOST_REQUIRE_EQUAL(lazy.values[i],
                              idle ? values[i] : exact.values[i]);
          for (uint32_t slot = 0; slot < slots; ++slot) {
            const auto at = slot * count + i;
            BOOST_REQUIRE_EQUAL(lazy.state[at],
                                idle ? state[at] : exact.state[at]);
          }
        }
        const bool moves = options.kind != OptimizerKind::sgd
                           && options.kind != OptimizerKind::adagrad
                           && options.kind != OptimizerKind::rmsprop;
        if (moves || options.weight_decay > 0)
          BOOST_TEST((lazy.values != exact.values));
      }
}

BOOST_AUTO_TEST_CASE(a_statistic_moves_towards_the_mean_under_every_rule) {
  const auto values = random_values(37, 1);
  const auto gradient = random_values(37, 2);
  for (auto kind : kinds) {
    OptimizerOptions options;
    options.kind = kind;
    options.weight_decay = 0.1f;
    UpdateArgs args;
    args.gradient_scale = 0.5f; // clipping is for gradients
    Parameter mean;
    mean.role = ParameterRole::statistic;
    mean.momentum = 0.1f;
    set_parameter(args, mean);
    const auto out = one_update(options, args);
    for (size_t i = 0; i < out.size(); ++i)
      BOOST_REQUIRE_EQUAL(out[i],
                          values[i] + 0.1f * (gradient[i] / 8 - values[i]));
  }
}

BOOST_AUTO_TEST_CASE(a_statistic_passes_its_state_on) {
  OptimizerOptions options; // Adam
  const std::vector<float> ones(6, 1.0f);
  std::vector<float> out(3, not_a_number);
  std::vector<float> state(6, not_a_number);
  UpdateArgs args;
  args.role = ParameterRole::statistic;
  args.gradient_sum = ones.data();
  args.in = ones.data();
  args.out = out.data();
  args.state_in = ones.data();
  args.state_out = state.data();
  args.state_stride = 3;
  args.count = 3;
  update(options, args);
  BOOST_TEST(state == ones);
}

BOOST_AUTO_TEST_CASE(ftrl_makes_small_weights_exactly_zero) {
  OptimizerOptions options;
  options.kind = OptimizerKind::ftrl;
  options.l1 = 40.0f;
  const auto trained = train(options, 101, 0, 101, false);
  const auto zeros = std::count(trained.values.begin(), trained.values.end(),
                                0.0f);
  BOOST_TEST(zeros > 10);
  BOOST_TEST(zeros < 101);
}

BOOST_AUTO_TEST_CASE(ftrl_keeps_what_never_had_a_gradient) {
  OptimizerOptions options;
  options.kind = OptimizerKind::ftrl;
  const float gradient[3] = {0, 1, 0};
  const float values[3] = {0.5f, 0.5f, -0.25f};
  const float zeros[6] = {};
  float state[6];
  float out[3];
  UpdateArgs args;
  args.gradient_sum = gradient;
  args.in = values;
  args.out = out;
  args.state_in = zeros;
  args.state_out = state;
  args.state_stride = 3;
  args.count = 3;
  update(options, args);
  BOOST_TEST(out[0] == 0.5f);
  BOOST_TEST(out[1] != 0.5f);
  BOOST_TEST(out[2] == -0.25f);
}

BOOST_AUTO_TEST_SUITE_END()

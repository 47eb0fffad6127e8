#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/error.hpp"
#include "kernels/optimizer.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

const OptimizerKind kinds[] = {
  OptimizerKind::sgd,     OptimizerKind::momentum, OptimizerKind::nesterov,
  OptimizerKind::adam,    OptimizerKind::adamw,    OptimizerKind::adagrad,
  OptimizerKind::rmsprop,
};

/// PyTorch's rules, in float64 and one element at a time.
void reference_update(const OptimizerOptions& o, double lr, uint64_t step,
                      double g, double& p, double* s) {
  double decay = o.weight_decay;
  if (o.kind != OptimizerKind::adamw)
    g += decay * p;
  auto steps = static_cast<double>(step);
  switch (o.kind) {
    case OptimizerKind::sgd:
      p -= lr * g;
      return;
    case OptimizerKind::momentum:
      s[0] = o.momentum * s[0] + g;
      p -= lr * s[0];
      return;
    case OptimizerKind::nesterov:
      s[0] = o.momentum * s[0] + g;
      p -= lr * (g + o.momentum * s[0]);
      return;
    case OptimizerKind::adamw:
      p *= 1 - lr * decay;
      [[fallthrough]];
    case OptimizerKind::adam: {
      s[0] = o.beta1 * s[0] + (1.0 - o.beta1) * g;
      s[1] = o.beta2 * s[1] + (1.0 - o.beta2) * g * g;
      auto m = s[0] / (1 - std::pow(double{o.beta1}, steps));
      auto v = s[1] / (1 - std::pow(double{o.beta2}, steps));
      p -= lr * m / (std::sqrt(v) + o.epsilon);
      return;
    }
    case OptimizerKind::adagrad:
      s[0] += g * g;
      p -= lr * g / (std::sqrt(s[0]) + o.epsilon);
      return;
    case OptimizerKind::rmsprop:
      s[0] = o.beta2 * s[0] + (1.0 - o.beta2) * g * g;
      p -= lr * g / (std::sqrt(s[0]) + o.epsilon);
      return;
  }
}

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
    for (size_t begin = 0; begin < count; begin += cut) {
      UpdateArgs args;
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

/// Every rule, without and with weight decay.
std::vector<OptimizerOptions> all_options() {
  std::vector<OptimizerOptions> result;
  for (auto kind : kinds)
    for (auto decay : {0.0f, 0.02f}) {
      OptimizerOptions options;
      options.kind = kind;
      options.weight_decay = decay;
      result.push_back(options);
    }
  return result;
}

/// Puts the table that was selected back.
struct SelectedLoops {
  kernels::Isa kept = kernels::selected_isa();
  ~SelectedLoops() { kernels::select_loops(kept); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(optimizer_test)

BOOST_AUTO_TEST_CASE(names_are_read_and_written) {
  for (auto kind : kinds)
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
  for (const auto* name : {"ftrl", "lamb"})
    BOOST_CHECK_EXCEPTION(
      parse_optimizer(name), UsageError, [](const UsageError& error) {
        return std::string(error.what()).find("not available yet")
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
        for (uint64_t step = 1; step <= 4; ++step) {
          auto gradient = random_values(count,
                                        100 + static_cast<uint32_t>(step));
          for (size_t i = 0; i < count; ++i)
            reference_update(options, 0.01f, step, gradient[i], values[i],
                             &state[2 * i]);
        }
        check_within({2e-7, 1e-6}, trained.values, values, count);
        const auto slots = state_slots(options.kind);
        for (uint32_t slot = 0; slot < slots; ++slot) {
          std::vector<double> want(count);
          for (size_t i = 0; i < count; ++i)
            want[i] = state[2 * i + slot];
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
      select_loops(Isa::sse4);
      auto first = train(options, 1009, 0, 1009, false, samples);
      for (auto isa : {Isa::avx2, Isa::avx512}) {
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

BOOST_AUTO_TEST_SUITE_END()

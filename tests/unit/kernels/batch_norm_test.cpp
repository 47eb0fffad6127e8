#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <barrier>
#include <random>
#include <thread>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(batch_norm_test)

namespace {

constexpr float epsilon = 1e-3f;

struct Moments {
  double mean = 0, variance = 0;
};

/// Over all positions of channel c of `channels`.
Moments moments(const std::vector<double>& x, size_t channels, size_t c) {
  const auto count = static_cast<double>(x.size() / channels);
  Moments result;
  for (size_t i = c; i < x.size(); i += channels)
    result.mean += x[i] / count;
  for (size_t i = c; i < x.size(); i += channels)
    result.variance += (x[i] - result.mean) * (x[i] - result.mean) / count;
  return result;
}

OperatorCase batch_norm(uint32_t rows, Shape shape, Activation activation,
                        bool training = true) {
  const auto channels = shape.back();
  OperatorCase given;
  given.kind = OpKind::batch_norm;
  given.attributes.activation = activation;
  given.attributes.epsilon = epsilon;
  given.rows = rows;
  given.inputs = {shape};
  given.output = shape;
  given.parameters = {{channels}, {channels}, {channels}, {channels}};
  given.training = training;
  given.parameter_low = 0.3;
  given.backward = {5e-5, 5e-5};
  given.reference = [=](const Operands& x) {
    auto y = x.inputs[0];
    for (size_t c = 0; c < channels; ++c) {
      const auto of = training
                        ? moments(x.inputs[0], channels, c)
                        : Moments{x.parameters[2][c], x.parameters[3][c]};
      for (size_t i = c; i < y.size(); i += channels) {
        y[i] = (y[i] - of.mean) / std::sqrt(of.variance + double{epsilon})
                 * x.parameters[0][c]
               + x.parameters[1][c];
        if (activation == Activation::relu)
          y[i] = std::max(y[i], 0.0);
      }
    }
    return y;
  };
  given.statistics_at = {2, 3};
  given.statistics = [=](const Operands& x) {
    std::vector<std::vector<double>> result(2);
    const auto count = static_cast<double>(x.inputs[0].size() / channels);
    for (size_t c = 0; c < channels; ++c) {
      const auto of = moments(x.inputs[0], channels, c);
      result[0].push_back(rows * of.mean);
      result[1].push_back(count > 1 ? rows * of.variance * count / (count - 1)
                                    : rows * x.parameters[3][c]);
    }
    return result;
  };
  return given;
}

/// Sums among threads, in the order of their numbers.
class Hall {
public:
  Hall(size_t members) : shares_(members), barrier_(std::ptrdiff_t(members)) {}

  uint64_t sum(size_t member, double* values, size_t count, uint64_t rows) {
    shares_[member] = {{values, values + count}, rows};
    barrier_.arrive_and_wait();
    std::vector<double> sums(count);
    uint64_t all = 0;
    for (const auto& share : shares_) {
      for (size_t i = 0; i < count; ++i)
        sums[i] += share.values.at(i);
      all += share.rows;
    }
    barrier_.arrive_and_wait(); // all have read
    std::copy(sums.begin(), sums.end(), values);
    return all;
  }

private:
  struct Share {
    std::vector<double> values;
    uint64_t rows = 0;
  };
  std::vector<Share> shares_;
  std::barrier<> barrier_;
};

class Seat final : public StatisticsExchange {
public:
  Seat(Hall& hall, size_t member) : hall_(hall), member_(member) {}
  uint64_t sum(double* values, size_t count, uint64_t rows) override {
    ++calls;
    return hall_.sum(member_, values, count, rows);
  }
  int calls = 0;

private:
  Hall& hall_;
  size_t member_;
};

constexpr Shape::value_type channels = 5;
const Shape test_image = {3, 4, channels};

using Values = std::vector<float>;

Values drawn(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  Values result(count);
  for (auto& value : result)
    value = values(random) + 0.5f;
  return result;
}

struct Outcome {
  Values output, input_gradient;
  std::array<Values, 4> gradients;
};

/// Both passes over rows [first, first + rows) of the same big batch, as a part
/// of a step.
Outcome trained(uint32_t first, uint32_t rows, StatisticsExchange* exchange,
                WholeStep step = {}, const Shape& image = test_image) {
  Graph graph;
  graph.values = {{"x", image, ValueType::float32},
                  {"y", image, ValueType::float32}};
  Op op;
  op.kind = OpKind::batch_norm;
  op.name = "norm";
  op.attributes.activation = Activation::relu;
  op.attributes.cross_replica = true;
  op.inputs = {0};
  op.output = 1;
  op.parameters = {0, 1, 2, 3};
  graph.parameters.resize(4);
  graph.ops = {op};
  auto device = make_device({}, Precision::float32);
  auto made = device->make_operator(graph, 0, rows);
  const auto size = elements(image);
  const auto all = drawn(64 * size, 1);
  const auto asked = drawn(64 * size, 2);
  const Values x(&all[first * size], &all[first * size] + rows * size);
  Values dy(&asked[first * size], &asked[first * size] + rows * size);
  const auto scale = drawn(channels, 3);
  const auto shift = drawn(channels, 4);
  const Values none(channels, 0);
  const Values running(channels, 3);
  Outcome outcome;
  outcome.output.resize(rows * size);
  outcome.input_gradient.resize(rows * size);
  OpArgs args;
  args.rows = rows;
  args.training = true;
  args.inputs = {x.data()};
  args.output = outcome.output.data();
  args.parameters = {scale.data(), shift.data(), none.data(), running.data()};
  args.saved = device->allocate(made->needs().saved.of(rows));
  args.scratch = device->allocate(made->needs().scratch.of(rows));
  args.exchange = exchange;
  args.step = step;
  made->forward(args);
  args.output_gradient = dy.data();
  args.input_gradients = {outcome.input_gradient.data()};
  args.accumulate_inputs = {0};
  for (auto& gradient : outcome.gradients) {
    gradient.resize(channels);
    args.parameter_gradients.push_back(gradient.data());
    args.accumulate_parameters.push_back(0);
  }
  made->backward(args);
  return outcome;
}

} // namespace

BOOST_AUTO_TEST_CASE(batch_norm_follows_its_reference) {
  for (auto activation : {Activation::none, Activation::relu})
    for (auto [rows, shape] :
         {std::pair{5u, Shape{1}}, std::pair{2u, Shape{3, 2, 16}},
          std::pair{7u, Shape{19}}, std::pair{3u, Shape{5, 4, 37}},
          std::pair{2u, Shape{6, 7, 64}}, std::pair{1u, Shape{3, 5, 3}},
          // Sums of 18 chunks, and of 40: see row_chunks() of kernels/cuda/.
          std::pair{9u, Shape{7, 9, 40}}, std::pair{20u, Shape{8, 8, 6}}}) {
      check_operator(batch_norm(rows, shape, activation));
      check_operator(batch_norm(rows, shape, activation, false));
    }
}

BOOST_AUTO_TEST_CASE(one_position_gives_the_shift_and_no_variance) {
  auto given = batch_norm(1, {1, 1, 5}, Activation::none);
  given.reference = [](const Operands& x) { return x.parameters[1]; };
  check_operator(given);
}

BOOST_AUTO_TEST_CASE(values_far_from_zero_keep_their_spread) {
  auto given = batch_norm(16, {4, 4, 3}, Activation::none);
  given.low = 1000;
  given.high = 1000.5;
  // What float32 leaves of the values and their mean.
  given.forward = {2e-3, 1e-3};
  given.backward = {2e-2, 2e-2};
  check_operator(given);
}

BOOST_AUTO_TEST_CASE(replicas_that_exchange_sums_equal_one_big_batch) {
  const std::vector<uint32_t> rows = {3, 1, 4, 2};
  const auto whole = trained(0, 10, nullptr);
  Hall hall(rows.size());
  std::vector<Outcome> parts(rows.size());
  std::vector<int> calls(rows.size());
  {
    std::vector<std::jthread> threads;
    uint32_t first = 0;
    for (size_t i = 0; i < rows.size(); first += rows[i], ++i)
      threads.emplace_back([&, i, first] {
        Seat seat(hall, i);
        parts[i] = trained(first, rows[i], &seat);
        calls[i] = seat.calls;
      });
  }
  Outcome together;
  for (auto& gradient : together.gradients)
    gradient.resize(channels);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& part = parts[i];
    BOOST_TEST(calls[i] == 2);
    auto append = [](Values& to, const Values& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(together.output, part.output);
    append(together.input_gradient, part.input_gradient);
    for (size_t k = 0; k < 4; ++k)
      for (size_t c = 0; c < channels; ++c)
        together.gradients[k][c] += part.gradients[k][c];
  }
  constexpr Tolerance close = {1e-6, 2e-6};
  check_within(close, together.output, whole.output, whole.output.size());
  check_within(close, together.input_gradient, whole.input_gradient,
               whole.input_gradient.size());
  for (size_t k = 0; k < 4; ++k)
    check_within(close, together.gradients[k], whole.gradients[k], channels);
  // Without an exchange each normalises for itself, which is something else.
  const auto alone = trained(0, 3, nullptr);
  double apart = 0;
  for (size_t i = 0; i < alone.output.size(); ++i)
    apart = std::max(apart,
                     std::abs(double{alone.output[i]} - whole.output[i]));
  BOOST_TEST(apart > 0.01);
}

BOOST_AUTO_TEST_CASE(squared_deviations_are_pooled_by_count_less_one) {
  // Micro-batches of 3, 1 and 4 rows were averaged as if each had as much to
  // say as it has rows, and the one of a single value as a variance of 0.
  const std::vector<uint32_t> rows = {3, 1, 4};
  const Shape plain{channels};
  const auto x = drawn(64 * channels, 1);
  std::vector<double> deviations(channels);
  Values given(channels);
  uint32_t first = 0;
  for (auto count : rows) {
    const std::vector<double> part(&x[first * channels],
                                   &x[first * channels] + count * channels);
    const auto leaf = trained(first, count, nullptr, {8, 3}, plain);
    for (size_t c = 0; c < channels; ++c) {
      deviations[c] += moments(part, channels, c).variance * count;
      given[c] += leaf.gradients[3][c];
    }
    first += count;
  }
  for (size_t c = 0; c < channels; ++c)
    BOOST_TEST(given[c] / 8 == deviations[c] / (8 - 3),
               boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(one_value_alone_leaves_the_running_variance) {
  const auto alone = trained(0, 1, nullptr, {}, {channels});
  for (size_t c = 0; c < channels; ++c)
    BOOST_TEST(alone.gradients[3][c] == 3.0f);
}

BOOST_AUTO_TEST_SUITE_END()

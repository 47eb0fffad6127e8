#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(loss_test)

namespace {

OperatorCase loss(OpKind kind, uint32_t rows, Shape input) {
  OperatorCase given;
  given.kind = kind;
  given.rows = rows;
  given.inputs = {input};
  given.output = {};
  given.low = -4;
  given.high = 4;
  return given;
}

std::vector<int32_t> labels_below(uint32_t classes, size_t count) {
  std::mt19937 random(3);
  std::vector<int32_t> labels(count);
  for (auto& label : labels)
    label = static_cast<int32_t>(random() % classes);
  return labels;
}

OperatorCase softmax_loss(uint32_t rows, Shape places, uint32_t classes) {
  auto input = places;
  input.push_back(classes);
  auto given = loss(OpKind::softmax_cross_entropy, rows, input);
  const auto count = elements(places);
  given.labels = labels_below(classes, rows * count);
  given.reference = [=, labels = given.labels](const Operands& x) {
    double total = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto* z = x.inputs[0].data() + i * classes;
      const auto largest = *std::max_element(z, z + classes);
      double sum = 0;
      for (size_t c = 0; c < classes; ++c)
        sum += std::exp(z[c] - largest);
      total += std::log(sum) + largest - z[labels[i]];
    }
    return std::vector<double>{total / static_cast<double>(count)};
  };
  return given;
}

OperatorCase sigmoid_loss(uint32_t rows, uint64_t places) {
  auto given = loss(OpKind::sigmoid_cross_entropy, rows, {places});
  given.labels = labels_below(2, rows * places);
  given.reference = [=, labels = given.labels](const Operands& x) {
    double total = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto z = x.inputs[0][i];
      total += std::max(z, 0.0) - z * labels[i]
               + std::log1p(std::exp(-std::abs(z)));
    }
    return std::vector<double>{total / static_cast<double>(places)};
  };
  return given;
}

OperatorCase squared_loss(uint32_t rows, uint64_t places) {
  auto given = loss(OpKind::mean_squared_error, rows, {places});
  std::mt19937 random(4);
  std::uniform_real_distribution<float> draw(-3, 3);
  for (size_t i = 0; i < rows * places; ++i)
    given.targets.push_back(draw(random));
  given.reference = [=, targets = given.targets](const Operands& x) {
    double total = 0;
    for (size_t i = 0; i < targets.size(); ++i)
      total += std::pow(x.inputs[0][i] - double{targets[i]}, 2);
    return std::vector<double>{total / static_cast<double>(places)};
  };
  return given;
}

/// What one forward pass of a loss on the CPU says.
struct Answer {
  kernels::LossTotals totals;
  std::vector<int32_t> classes;
};

Answer answer_of(OpKind kind, Shape input, std::vector<float> x,
                 std::vector<int32_t> labels, std::vector<float> targets,
                 size_t places) {
  auto device = kernels::make_device({}, Precision::float32);
  Graph graph;
  graph.values = {{"x", input}, {"loss", {}}};
  graph.ops = {{kind, "op", {0}, 1, {}, {}}};
  const auto rows = static_cast<uint32_t>(x.size() / elements(input));
  auto op = device->make_operator(graph, 0, rows);
  std::vector<float> saved(op->needs().saved.of(rows));
  std::vector<float> scratch(op->needs().scratch.of(rows));
  Answer answer;
  answer.classes.assign(places, -1);
  kernels::OpArgs args;
  args.rows = rows;
  args.inputs = {x.data()};
  args.saved = saved.data();
  args.scratch = scratch.data();
  args.labels = labels.empty() ? nullptr : labels.data();
  args.targets = targets.empty() ? nullptr : targets.data();
  args.totals = &answer.totals;
  args.classes = answer.classes.data();
  op->forward(args);
  return answer;
}

} // namespace

BOOST_AUTO_TEST_CASE(softmax_cross_entropy_follows_its_reference) {
  for (uint32_t rows : {1u, 5u, 34u})
    for (uint32_t classes : {1u, 2u, 10u, 67u}) {
      check_operator(softmax_loss(rows, {}, classes));
      check_operator(softmax_loss(rows, {7}, classes));
      check_operator(softmax_loss(rows, {2, 3}, classes));
    }
  for (uint32_t classes : {8u, 264u, 1024u, 1032u, 1033u, 4808u}) {
    auto given = softmax_loss(3, {2}, classes);
    given.differences = 20;
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(sigmoid_cross_entropy_follows_its_reference) {
  for (uint32_t rows : {1u, 5u, 34u})
    for (uint64_t places : {1, 3})
      check_operator(sigmoid_loss(rows, places));
}

BOOST_AUTO_TEST_CASE(mean_squared_error_follows_its_reference) {
  for (uint32_t rows : {1u, 5u, 34u})
    for (uint64_t places : {1, 3, 17})
      check_operator(squared_loss(rows, places));
}

BOOST_AUTO_TEST_CASE(sigmoid_cross_entropy_of_large_logits_is_finite) {
  auto answer = answer_of(OpKind::sigmoid_cross_entropy, {1},
                          {1000, -1000, 1000, -1000}, {1, 0, 0, 1}, {}, 4);
  BOOST_TEST(answer.totals.loss == 2000.0);
  BOOST_TEST(answer.totals.correct == 2u);
  const std::vector<int32_t> classes{1, 0, 1, 0};
  BOOST_TEST(answer.classes == classes, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(softmax_cross_entropy_names_the_largest_logit) {
  auto answer = answer_of(OpKind::softmax_cross_entropy, {2, 3},
                          {1, 3, 2, /**/ 5, 5, 4, /**/ -1, -2, 0, /**/ 0, 9, 8},
                          {1, 1, 2, 0}, {}, 4);
  const std::vector<int32_t> classes{1, 0, 2, 1};
  BOOST_TEST(answer.classes == classes, boost::test_tools::per_element());
  BOOST_TEST(answer.totals.correct == 2u);
}

BOOST_AUTO_TEST_CASE(of_equal_largest_logits_the_first_is_named) {
  for (uint64_t classes : {2, 16, 17, 37, 80, 1064})
    for (uint64_t first = 0; first + 1 < classes; first += 1 + first / 80) {
      // All others are below zero, which the end of a row is filled up with.
      std::vector<float> z(classes, -3.0f);
      z[first] = z[classes - 1] = -1.0f;
      auto answer = answer_of(OpKind::softmax_cross_entropy, {classes}, z, {0},
                              {}, 1);
      BOOST_REQUIRE_EQUAL(answer.classes[0], static_cast<int32_t>(first));
    }
}

BOOST_AUTO_TEST_CASE(mean_squared_error_is_summed_over_rows) {
  auto answer = answer_of(OpKind::mean_squared_error, {2}, {1, -2, 3, 4}, {},
                          {1, 0, 3, 2}, 4);
  BOOST_TEST(answer.totals.loss == 4.0);
}

BOOST_AUTO_TEST_CASE(without_labels_there_is_no_loss) {
  auto sigmoid = answer_of(OpKind::sigmoid_cross_entropy, {1}, {0, 2}, {}, {},
                           2);
  BOOST_TEST(sigmoid.totals.loss == 0.0);
  BOOST_TEST(sigmoid.classes[1] == 1);
  auto squared = answer_of(OpKind::mean_squared_error, {1}, {7}, {}, {}, 1);
  BOOST_TEST(squared.totals.loss == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()

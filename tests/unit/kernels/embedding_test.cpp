#include "kernels/base/error.hpp"
#include "tests/unit/kernels/embedding_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(embedding_test)

namespace {

/// Ids of [-1, vocabulary), many of them twice where the vocabulary is small.
std::vector<int32_t> some_ids(size_t count, uint64_t vocabulary) {
  std::mt19937 random(3);
  std::vector<int32_t> ids(count);
  for (auto& id : ids)
    id = static_cast<int32_t>(random() % (vocabulary + 1)) - 1;
  return ids;
}

OperatorCase table(OpKind kind, uint32_t rows, uint64_t n, uint64_t vocabulary,
                   uint64_t width) {
  OperatorCase given;
  given.kind = kind;
  given.attributes.vocabulary = vocabulary;
  given.attributes.width = width;
  given.rows = rows;
  given.inputs = {{n}};
  given.ids = {some_ids(rows * n, vocabulary)};
  given.parameters = {{vocabulary, width}};
  return given;
}

OperatorCase embedding(uint32_t rows, uint64_t n, uint64_t vocabulary,
                       uint64_t width) {
  auto given = table(OpKind::embedding, rows, n, vocabulary, width);
  given.output = {n, width};
  given.reference = [=](const Operands& x) {
    std::vector<double> y(rows * n * width);
    for (size_t i = 0; i < rows * n; ++i)
      if (const auto id = x.inputs[0][i]; id >= 0)
        for (size_t c = 0; c < width; ++c)
          y[i * width + c] = x.parameters[0][size_t(id) * width + c];
    return y;
  };
  return given;
}

OperatorCase bag(uint32_t rows, uint64_t n, uint64_t vocabulary, uint64_t width,
                 BagMode mode, bool weighted) {
  auto given = table(OpKind::embedding_bag, rows, n, vocabulary, width);
  given.attributes.mode = mode;
  if (weighted)
    given.inputs.push_back({n});
  given.output = {width};
  given.reference = [=](const Operands& x) {
    std::vector<double> y(rows * width);
    for (size_t r = 0; r < rows; ++r)
      add_bag(
        &x.inputs[0][r * n], weighted ? &x.inputs[1][r * n] : nullptr, n, width,
        mode, [&](size_t k) { return x.parameters[0][k]; }, &y[r * width]);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(an_embedding_looks_rows_up) {
  check_operator(embedding(1, 1, 1, 1));
  check_operator(embedding(3, 5, 7, 3));
  check_operator(embedding(4, 64, 65, 128));
  check_operator(embedding(2, 3, 1000, 17));
  check_operator(embedding(5, 40, 3, 16)); // an id fills more than a batch
  check_operator(embedding(2, 9, 4, 2056));
}

BOOST_AUTO_TEST_CASE(a_bag_adds_up_or_takes_the_mean_of_present_ids) {
  for (auto mode : {BagMode::sum, BagMode::mean})
    for (bool weighted : {false, true}) {
      check_operator(bag(1, 1, 1, 1, mode, weighted));
      check_operator(bag(5, 3, 4, 7, mode, weighted));
      check_operator(bag(3, 39, 100, 33, mode, weighted));
      check_operator(bag(30, 20, 3, 16, mode, weighted));
    }
}

BOOST_AUTO_TEST_CASE(a_bag_of_absent_ids_is_zero) {
  for (auto mode : {BagMode::sum, BagMode::mean})
    for (bool weighted : {false, true}) {
      auto given = bag(2, 3, 4, 5, mode, weighted);
      given.ids[0] = {-1, -1, -1, 2, -1, 2};
      check_operator(given);
    }
}

BOOST_AUTO_TEST_CASE(ids_outside_the_table_are_refused) {
  for (auto kind : {OpKind::embedding, OpKind::embedding_bag})
    for (int32_t wrong : {-2, 7, 1 << 30}) {
      auto given = kind == OpKind::embedding
                     ? embedding(1, 3, 7, 2)
                     : bag(1, 3, 7, 2, BagMode::sum, false);
      given.ids[0] = {1, wrong, 2};
      BOOST_CHECK_EXCEPTION(
        check_operator(given), InputError, [&](const InputError& error) {
          return std::string(error.what()).find(std::to_string(wrong))
                 != std::string::npos;
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()

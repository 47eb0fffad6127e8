#include "kernels/base/buffer.hpp"
#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/rotary_loops.hpp"
#include "kernels/graph/rotary_turns.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/on_stand_in.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(attention_test)

namespace {

struct Size {
  uint64_t length;
  uint64_t head;
  uint32_t heads;
  uint32_t key_heads = 0; ///< 0: as many
};

OperatorCase attention(uint32_t rows, Size size, bool causal) {
  OperatorCase given;
  given.kind = OpKind::attention;
  given.attributes.heads = size.heads;
  given.attributes.key_value_heads = size.key_heads;
  given.attributes.causal = causal;
  const PackedHeads of{size.length, size.head, size.heads,
                       given.attributes.key_heads()};
  given.rows = rows;
  given.inputs = {{of.length, of.stride()}};
  given.output = {of.length, of.width()};
  given.same_bits = SameBits::with_fma;
  given.differences = 30;
  given.name = std::to_string(size.length) + " x " + std::to_string(size.heads)
               + " x " + std::to_string(size.head)
               + (size.key_heads > 0
                    ? " of " + std::to_string(size.key_heads) + " keys"
                    : "")
               + (causal ? " causal" : " full");
  given.reference = [=](const Operands& x) {
    std::vector<double> y(rows * of.length * of.width());
    for (size_t r = 0; r < rows; ++r)
      for (size_t h = 0; h < of.queries; ++h)
        attend(of, h, &x.inputs[0][r * of.length * of.stride()],
               &y[r * of.length * of.width()], causal);
    return y;
  };
  return given;
}

OperatorCase rotary(uint32_t rows, Size size, double base, bool interleaved) {
  OperatorCase given;
  given.kind = OpKind::rotary;
  given.attributes.heads = size.heads;
  given.attributes.key_value_heads = size.key_heads;
  given.attributes.base = base;
  given.attributes.interleaved = interleaved;
  const PackedHeads of{size.length, size.head, size.heads,
                       given.attributes.key_heads()};
  given.rows = rows;
  given.inputs = {{of.length, of.stride()}};
  given.output = given.inputs[0];
  given.name = "rotary of " + std::to_string(size.length) + " x "
               + std::to_string(size.heads) + " x " + std::to_string(size.head);
  given.reference = [=](const Operands& x) {
    auto y = x.inputs[0];
    for (size_t r = 0; r < rows; ++r)
      turn_heads(of, &y[r * of.length * of.stride()], base, interleaved);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(attention_follows_its_reference) {
  std::vector<Size> sizes{{1, 1, 1}, {2, 3, 2}, {7, 5, 3}, {65, 17, 1}};
  if (on_stand_in()) // whole tiles of 32, three and a part of one, few
    sizes.insert(sizes.end(), {{32, 64, 1}, {100, 8, 2}, {40, 33, 3}});
  else
    sizes.insert(sizes.end(), {{64, 32, 4}, {131, 33, 2}, {200, 64, 1}});
  for (bool causal : {true, false})
    for (auto size : sizes) {
      check_operator(attention(1, size, causal));
      if (size.length < 100)
        check_operator(attention(3, size, causal));
    }
}

BOOST_AUTO_TEST_CASE(heads_of_queries_share_those_of_keys_and_values) {
  std::vector<Size> sizes{{1, 2, 2, 1}, {7, 5, 6, 3}, {65, 17, 2, 1}};
  if (on_stand_in())
    sizes.insert(sizes.end(), {{40, 32, 4, 2}, {33, 8, 4, 1}});
  else
    sizes.insert(sizes.end(), {{64, 32, 4, 2}, {72, 16, 4, 1}});
  for (bool causal : {true, false})
    for (auto size : sizes) {
      check_operator(attention(1, size, causal));
      check_operator(attention(2, size, causal));
    }
}

BOOST_AUTO_TEST_CASE(keys_of_their_own_are_keys_that_nobody_shares) {
  // The same operator by both spellings: the same bits.
  const uint64_t length = 70;
  std::vector<std::vector<float>> outputs;
  for (uint32_t key_heads : {0u, 2u}) {
    OpAttributes attributes;
    attributes.heads = 2;
    attributes.key_value_heads = key_heads;
    attributes.causal = true;
    const auto shape = kernels::attention_shape(attributes, {length, 48});
    std::vector<float> x(length * shape.stride());
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 23) / 11 - 1;
    std::vector<float> y(length * 48);
    std::vector<float> saved(2 * 2 * length);
    Buffer scratch(kernels::attention_scratch(shape));
    kernels::attention_table().forward(shape, {x.data(), y.data(), saved.data(),
                                               scratch.data()});
    outputs.push_back(y);
  }
  BOOST_TEST(outputs[0] == outputs[1], boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(place_by_place_attention_has_the_bits_of_the_whole) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> unit(-2, 2);
  for (auto size : {Size{1, 4, 1}, Size{9, 5, 2}, Size{64, 16, 2, 1},
                    Size{150, 24, 4, 2}, Size{131, 64, 3}}) {
    OpAttributes attributes;
    attributes.heads = size.heads;
    attributes.key_value_heads = size.key_heads;
    attributes.causal = true;
    const auto shape = kernels::attention_shape(
      attributes, {size.length, size.heads * size.head});
    std::vector<float> x(size.length * shape.stride());
    for (auto& value : x)
      value = unit(random);
    std::vector<float> whole(size.length * shape.width);
    std::vector<float> saved(2 * size.heads * size.length);
    Buffer scratch(kernels::attention_scratch(shape));
    kernels::attention_table().forward(shape, {x.data(), whole.data(),
                                               saved.data(), scratch.data()});
    Buffer keys(kernels::key_cache_size(shape));
    Buffer values(kernels::value_cache_size(shape));
    keys.fill(0);
    values.fill(0);
    std::vector<float> steps(whole.size());
    for (size_t p = 0; p < size.length; ++p)
      kernels::attention_table().step(
        shape, {x.data() + p * shape.stride(), steps.data() + p * shape.width,
                p, keys.data(), values.data(), scratch.data()});
    BOOST_TEST((steps == whole), size.length << " places differ");
  }
}

BOOST_AUTO_TEST_CASE(rotary_turns_queries_and_keys_and_leaves_values) {
  for (bool interleaved : {false, true}) {
    for (auto size :
         {Size{1, 2, 1}, Size{7, 6, 3}, Size{5, 34, 4, 2}, Size{33, 64, 2, 1}})
      check_operator(rotary(2, size, 10000, interleaved));
    check_operator(rotary(1, {300, 8, 1}, 500000, interleaved));
  }
}

BOOST_AUTO_TEST_CASE(angles_are_exact_at_far_places) {
  OpAttributes attributes;
  const size_t head = 128;
  const size_t length = 1 << 14;
  const auto turns = kernels::rotary_turns(attributes, head, length);
  double most = 0;
  for (size_t p = 0; p < length; p += 997)
    for (size_t i = 0; i < head / 2; ++i) {
      const auto angle = static_cast<long double>(p)
                         * std::pow(10000.0L, -2.0L * i / head);
      most = std::max(
        {most,
         std::abs(turns[p * head + i] - static_cast<double>(std::cos(angle))),
         std::abs(turns[p * head + head / 2 + i]
                  - static_cast<double>(std::sin(angle)))});
    }
  BOOST_TEST(most < 4e-8);
}

BOOST_AUTO_TEST_CASE(attention_holds_for_products_far_apart) {
  for (bool causal : {true, false}) {
    auto given = attention(1, {90, 8, 2}, causal);
    given.low = -12; // products reach 400: most weights vanish
    given.high = 12;
    given.forward = {2e-3, 2e-4};
    given.backward = {2e-2, 2e-3};
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(attention_follows_its_reference_on_every_isa) {
  struct Restore {
    kernels::Isa kept = kernels::selected_isa();
    ~Restore() { kernels::select_loops(kept); }
  } restore;
  for (auto isa : kernels::every_isa) {
    if (!kernels::has_isa(isa)) {
      BOOST_TEST_MESSAGE(kernels::name_of(isa) << " is not supported here");
      continue;
    }
    kernels::select_loops(isa);
    for (bool causal : {true, false})
      for (auto size : {Size{5, 3, 2}, Size{64, 32, 1}, Size{150, 24, 2}})
        check_operator(attention(2, size, causal));
  }
}

BOOST_AUTO_TEST_CASE(attention_keeps_two_numbers_a_query) {
  const uint64_t length = 2048;
  const uint32_t heads = 4;
  Graph graph;
  graph.values.push_back({"x", {length, 3 * 256}, ValueType::float32});
  graph.values.push_back({"y", {length, 256}, ValueType::float32});
  Op op{OpKind::attention, "attention", {0}, 1, {}, {}};
  op.attributes.heads = heads;
  graph.ops.push_back(op);
  const auto needs =
    kernels::make_cpu_operator({graph, graph.ops[0], 4, Precision::float32})
      ->needs();
  BOOST_CHECK_EQUAL(needs.saved.per_row, 2 * heads * length);
  BOOST_CHECK_EQUAL(needs.saved.fixed, 0);
  // Far from [length, length], and not for each row.
  BOOST_CHECK_EQUAL(needs.scratch.per_row, 0);
  BOOST_CHECK_LT(needs.scratch.fixed, 4 * length * (256 / heads));
}

BOOST_AUTO_TEST_SUITE_END()

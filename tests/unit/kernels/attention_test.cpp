#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/operators.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(attention_test)

namespace {

struct Size {
  uint64_t length;
  uint64_t head;
  uint32_t heads;
};

OperatorCase attention(uint32_t rows, Size size, bool causal) {
  const auto d = size.head * size.heads;
  OperatorCase given;
  given.kind = OpKind::attention;
  given.attributes.heads = size.heads;
  given.attributes.causal = causal;
  given.rows = rows;
  given.inputs = {{size.length, 3 * d}};
  given.output = {size.length, d};
  given.same_bits = SameBits::with_fma;
  given.differences = 30;
  given.name = std::to_string(size.length) + " x " + std::to_string(size.heads)
               + " x " + std::to_string(size.head)
               + (causal ? " causal" : " full");
  given.reference = [=](const Operands& x) {
    std::vector<double> y(rows * size.length * d);
    for (size_t r = 0; r < rows; ++r)
      for (size_t h = 0; h < size.heads; ++h)
        attend(&x.inputs[0][r * size.length * 3 * d + h * size.head],
               &y[r * size.length * d + h * size.head], size.length, size.head,
               d, causal);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(attention_follows_its_reference) {
  for (bool causal : {true, false})
    for (auto size :
         {Size{1, 1, 1}, Size{2, 3, 2}, Size{7, 5, 3}, Size{64, 32, 4},
          Size{65, 17, 1}, Size{131, 33, 2}, Size{200, 64, 1}}) {
      check_operator(attention(1, size, causal));
      if (size.length < 100)
        check_operator(attention(3, size, causal));
    }
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

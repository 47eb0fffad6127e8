#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/stablehlo/lower_graph.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::kernels::stablehlo;

BOOST_AUTO_TEST_SUITE(stablehlo_test)

namespace {

void check_has(const std::string& text, const std::string& part) {
  BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, part
                                                              << "\nis not in\n"
                                                              << text);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
    ++count;
  return count;
}

} // namespace

// The text as the specification writes it, so that a change of form is seen
// where no compiler reads it.
BOOST_AUTO_TEST_CASE(operations_are_written_as_the_specification_has_them) {
  Program p;
  const auto a = p.argument({{2, 3}});
  const auto b = p.argument({{3, 4}}, 1);
  p.result(p.add(a, a));
  p.result(p.binary("multiply", b, 0.5f));
  p.dot(a, b, {{}, {}, {1}, {0}});
  p.reduce("maximum", a, {1});
  p.transpose(a, {1, 0});
  p.broadcast_to_rows(p.reduce("add", a, {0}), {2, 3});
  p.slice(a, 1, 1, 3);
  p.concatenate({a, a}, 1);
  p.compare("GE", a, a);
  p.take_rows(b, p.integer(1, {5}));
  const auto text = p.text();
  check_has(text, "module @troupe {\n  func.func public @main("
                  "%0: tensor<2x3xf32>, %1: tensor<3x4xf32> "
                  "{tf.aliasing_output = 1 : i32}) -> "
                  "(tensor<2x3xf32>, tensor<3x4xf32>) {\n");
  check_has(text, "    %2 = stablehlo.add %0, %0 : tensor<2x3xf32>\n");
  check_has(text, "    %3 = stablehlo.constant dense<5.000000000e-01> : "
                  "tensor<3x4xf32>\n"
                  "    %4 = stablehlo.multiply %1, %3 : tensor<3x4xf32>\n");
  check_has(text, "stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], "
                  "precision = [HIGHEST, HIGHEST] : "
                  "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n");
  check_has(text, "stablehlo.constant dense<0xFF800000> : tensor<f32>\n");
  check_has(text, " applies stablehlo.maximum across dimensions = [1] : "
                  "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n");
  check_has(text, "stablehlo.transpose %0, dims = [1, 0] : "
                  "(tensor<2x3xf32>) -> tensor<3x2xf32>\n");
  check_has(text, ", dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n");
  check_has(text, "stablehlo.slice %0 [0:2, 1:3] : "
                  "(tensor<2x3xf32>) -> tensor<2x2xf32>\n");
  check_has(text, "stablehlo.concatenate %0, %0, dim = 1 : "
                  "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>\n");
  check_has(text, "stablehlo.compare GE, %0, %0, FLOAT : "
                  "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>\n");
  check_has(text, "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims "
                  "= [0], start_index_map = [0], index_vector_dim = 1>");
  check_has(text, "    return %2, %4 : tensor<2x3xf32>, tensor<3x4xf32>\n");
}

BOOST_AUTO_TEST_CASE(products_in_bfloat16_give_float32) {
  Program p;
  p.compute_in(Element::bf16);
  const auto a = p.argument({{2, 3}});
  const auto b = p.argument({{3, 4}});
  BOOST_CHECK(p.dot(a, b, {{}, {}, {1}, {0}}).type
              == (TensorType{{2, 4}, Element::f32}));
  check_has(p.text(), "stablehlo.convert %0 : (tensor<2x3xf32>) -> "
                      "tensor<2x3xbf16>\n");
  check_has(p.text(), "precision = [DEFAULT, DEFAULT] : (tensor<2x3xbf16>, "
                      "tensor<3x4xbf16>) -> tensor<2x4xf32>\n");
}

BOOST_AUTO_TEST_CASE(replicas_exchange_parts_in_one_group) {
  Program p;
  const auto a = p.argument({{3, 4}});
  const auto parts = p.all_to_all(a, 3);
  const auto row = p.reshape(p.slice(parts, 0, 0, 1), {4});
  BOOST_CHECK(p.all_gather(row, 3).type == (TensorType{{12}, Element::f32}));
  BOOST_CHECK(p.all_reduce(a, 3).type == a.type);
  check_has(p.text(), "replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>");
}

/// Of 23 elements three replicas add up 8, 8 and 7.
BOOST_AUTO_TEST_CASE(a_sum_of_replicas_follows_its_program) {
  const auto graph = make_graph("mlp:4-3-2");
  const auto count = graph.parameters.size();
  const SumProgram order{{0, 0, 0}, {0, 1, 1}, {1, 0, 0}, {2, 0, 0}, {2, 1, 3}};
  const auto sum = sum_program(graph, 3, 2, order);
  BOOST_CHECK_EQUAL(sum.arguments().size(), 2 * count);
  BOOST_CHECK_EQUAL(sum.results().size(), count);
  BOOST_CHECK_EQUAL(count_of(sum.text(), "stablehlo.add "), 4u);
  BOOST_CHECK_EQUAL(count_of(sum.text(), "\"stablehlo.all_to_all\""), 2u);
  BOOST_CHECK_EQUAL(count_of(sum.text(), "\"stablehlo.all_gather\""), 1u);
  const auto any = any_order_sum_program(graph, 3);
  BOOST_CHECK_EQUAL(count_of(any.text(), "\"stablehlo.all_reduce\""), count);
}

BOOST_AUTO_TEST_CASE(every_operator_is_written) {
  for (uint8_t kind = 0;
       kind <= static_cast<uint8_t>(OpKind::mean_squared_error); ++kind)
    BOOST_CHECK_MESSAGE(find_lowering(static_cast<OpKind>(kind)) != nullptr,
                        to_string(static_cast<OpKind>(kind)));
}

BOOST_AUTO_TEST_CASE(a_program_has_an_argument_for_each_parameter_and_field) {
  const auto graph = make_graph("resnet8");
  const auto plain = gradient_program(graph, 4, Precision::float32);
  const auto count = graph.parameters.size();
  BOOST_CHECK_EQUAL(plain.program.arguments().size(), count + 4);
  BOOST_CHECK_EQUAL(plain.program.results().size(), count + 2);
  const auto sum = addition_program(graph);
  BOOST_CHECK_EQUAL(sum.arguments().size(), 2 * count);
  BOOST_CHECK_EQUAL(count_of(sum.text(), "tf.aliasing_output"), count);
  const auto evaluation = evaluation_program(graph, 4, Precision::float32);
  BOOST_CHECK_EQUAL(evaluation.program.arguments().size(), count + 2);
  BOOST_CHECK_EQUAL(evaluation.program.results().size(), 4u);
}

BOOST_AUTO_TEST_CASE(an_update_gives_all_that_it_changes_its_own_memory) {
  const auto graph = make_graph("mlp:20-16-4");
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adam;
  const auto count = graph.parameters.size();
  const auto update = update_program(graph, rule, {});
  BOOST_CHECK_EQUAL(update.arguments().size(), 4 * count + 1);
  BOOST_CHECK_EQUAL(update.results().size(), 3 * count + 1);
  BOOST_CHECK_EQUAL(count_of(update.text(), "tf.aliasing_output"), 3 * count);
}

BOOST_AUTO_TEST_CASE(what_is_not_written_is_named) {
  const auto graph = make_graph(
    R"({"sample": {"features": [4, 4, 2], "classes": 3}, "operators": [
        {"kind": "batch_norm", "name": "norm", "cross_replica": true},
        {"kind": "reshape"}, {"kind": "dense", "units": "classes"},
        {"kind": "softmax_cross_entropy"}]})");
  BOOST_CHECK_EXCEPTION(gradient_program(graph, 4, Precision::float32),
                        InputError, [](const InputError& mistake) {
                          return std::string{mistake.what()}.starts_with(
                            "operator norm: batch_norm with cross_replica");
                        });
}

BOOST_AUTO_TEST_SUITE_END()

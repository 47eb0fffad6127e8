#include "kernels/base/require.hpp"
#include "kernels/collective/sum_program.hpp"
#include "kernels/stablehlo/lower_graph.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <vector>

namespace troupe::kernels::stablehlo {

namespace {

uint64_t all_elements(const Graph& graph) {
  uint64_t count = 0;
  for (const auto& parameter : graph.parameters)
    count += parameter.size();
  return count;
}

std::vector<Tensor> gradient_arguments(Program& p, const Graph& graph) {
  std::vector<Tensor> out;
  for (const auto& parameter : graph.parameters)
    out.push_back(p.argument({parameter.shape}));
  return out;
}

/// One gradient as [replicas, share], with zeros behind it.
Tensor in_shares(Program& p, const std::vector<Tensor>& gradient,
                 uint32_t replicas, uint64_t share) {
  std::vector<Tensor> parts;
  uint64_t count = 0;
  for (const auto& tensor : gradient) {
    parts.push_back(p.reshape(tensor, {elements(tensor.shape())}));
    count += elements(tensor.shape());
  }
  if (count < replicas * share)
    parts.push_back(p.constant(0, {replicas * share - count}));
  return p.reshape(p.concatenate(parts, 0), {replicas, share});
}

/// What a machine with a stack makes of them (SumTerm).
Tensor summed(Program& p, const SumProgram& order,
              const std::vector<Tensor>& shares) {
  std::vector<Tensor> stack;
  for (const auto& term : order) {
    const auto& of_all = shares.at(term.vector);
    const auto own = p.slice(of_all, 0, term.member, term.member + 1);
    stack.push_back(p.reshape(own, {own.shape()[1]}));
    for (uint32_t merge = 0; merge < term.merges; ++merge) {
      const auto newer = stack.back();
      stack.pop_back();
      stack.back() = p.add(stack.back(), newer);
    }
  }
  return stack.front();
}

} // namespace

Program sum_program(const Graph& graph, uint32_t replicas, uint32_t vectors,
                    const SumProgram& order) {
  require(is_sum(order, replicas), "a program that leaves one sum");
  Program p;
  const auto share = (all_elements(graph) + replicas - 1) / replicas;
  std::vector<Tensor> shares;
  for (uint32_t i = 0; i < vectors; ++i)
    shares.push_back(p.all_to_all(
      in_shares(p, gradient_arguments(p, graph), replicas, share), replicas));
  const auto all = p.all_gather(summed(p, order, shares), replicas);
  uint64_t begin = 0;
  for (const auto& parameter : graph.parameters) {
    const auto end = begin + parameter.size();
    p.result(p.reshape(p.slice(all, 0, begin, end), parameter.shape));
    begin = end;
  }
  return p;
}

Program any_order_sum_program(const Graph& graph, uint32_t replicas) {
  Program p;
  for (const auto& gradient : gradient_arguments(p, graph))
    p.result(p.all_reduce(gradient, replicas));
  return p;
}

} // namespace troupe::kernels::stablehlo

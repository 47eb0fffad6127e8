// Embeddings: rows of a table by ids, where -1 stands for an absent one.

#include "kernels/stablehlo/lowered_op.hpp"

namespace troupe::kernels::stablehlo {

namespace {

/// Ids [rows, n] that are there.
Tensor present(Program& p, const Tensor& ids) {
  return p.compare("GE", ids, p.integer(0, ids.shape()));
}

/// [rows, n, width]: the rows that the ids name, zeros where there is none.
Tensor rows_of(LoweredOp& at) {
  auto& p = at.program;
  const auto& ids = at.inputs[0];
  const auto taken = p.take_rows(at.parameters[0], ids);
  return p.select(p.broadcast_along_rows(present(p, ids), taken.shape()), taken,
                  p.constant(0, taken.shape()));
}

} // namespace

Tensor embedding_forward(LoweredOp& at) {
  return rows_of(at);
}

OpGradients embedding_backward(LoweredOp& at, const Tensor& d) {
  return {{std::nullopt},
          {at.program.add_rows(at.parameters[0].shape(), at.inputs[0], d)}};
}

// -- bags ---------------------------------------------------------------------

namespace {

/// What each row counts in its bag, [rows, n]: its weight, and of a mean the
/// share of a present id; of none 0.
Tensor counts(LoweredOp& at, const Tensor& part) {
  auto& p = at.program;
  const auto all = p.broadcast(part, at.inputs[0].shape(), {0});
  return at.inputs.size() > 1 ? p.multiply(all, at.inputs[1]) : all;
}

Tensor part_of_bag(LoweredOp& at) {
  auto& p = at.program;
  const Shape shape{at.rows};
  if (at.attributes().mode == BagMode::sum)
    return p.constant(1, shape);
  const auto& ids = at.inputs[0];
  const auto number =
    p.sum(p.select(present(p, ids), p.constant(1, ids.shape()),
                   p.constant(0, ids.shape())),
          {1});
  const auto none = p.compare("EQ", number, p.constant(0, shape));
  return p.select(none, p.constant(0, shape),
                  p.divide(p.constant(1, shape), number));
}

} // namespace

Tensor embedding_bag_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto taken = rows_of(at);
  const auto part = part_of_bag(at);
  const auto count = counts(at, part);
  at.kept = {taken, part, count};
  return p.sum(p.multiply(taken, p.broadcast_along_rows(count, taken.shape())),
               {1});
}

OpGradients embedding_bag_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  const auto& taken = at.kept[0];
  const auto& count = at.kept[2];
  const auto each = p.broadcast(d, taken.shape(), {0, 2});
  OpGradients out;
  out.inputs.resize(at.inputs.size());
  out.parameters.push_back(
    p.add_rows(at.parameters[0].shape(), at.inputs[0],
               p.multiply(each, p.broadcast_along_rows(count, taken.shape()))));
  if (at.inputs.size() > 1 && at.wants[1])
    out.inputs[1] = p.multiply(p.sum(p.multiply(each, taken), {2}),
                               p.broadcast(at.kept[1], count.shape(), {0}));
  return out;
}

} // namespace troupe::kernels::stablehlo

// Losses: a number a sample, the mean over its labels; the host adds them up in
// double.

#include "kernels/stablehlo/lowered_op.hpp"

namespace troupe::kernels::stablehlo {

namespace {

/// [rows] from a loss for each label.
Tensor mean_of_places(LoweredOp& at, const Tensor& losses) {
  auto& p = at.program;
  const auto places = elements(losses.shape()) / at.rows;
  const auto flat = p.reshape(losses, {at.rows, places});
  const auto sum = p.sum(flat, {1});
  return places == 1 ? sum
                     : p.binary("divide", sum, static_cast<float>(places));
}

Tensor count_of(Program& p, const Tensor& hits) {
  return p.sum(p.convert(hits, Element::i32), first_extents(hits.rank()));
}

/// The number of the last extent's element, for each of z.
Tensor class_numbers(Program& p, const Tensor& z) {
  return p.iota({z.shape(), Element::i32}, z.rank() - 1);
}

} // namespace

// -- softmax ------------------------------------------------------------------

Tensor softmax_loss_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& z = at.inputs[0];
  const std::vector<uint32_t> last{z.rank() - 1};
  const auto& labels = *at.batch.labels;
  const auto largest = p.reduce("maximum", z, last);
  const auto wide = p.broadcast_along_rows(largest, z.shape());
  const auto off = p.subtract(z, wide);
  const auto e = p.unary("exponential", off);
  const auto sum = p.sum(e, last);
  const auto numbers = class_numbers(p, z);
  const auto named = p.compare("EQ", numbers,
                               p.broadcast_along_rows(labels, z.shape()));
  const auto zero = p.constant(0, z.shape());
  const auto losses = p.subtract(p.unary("log", sum),
                                 p.sum(p.select(named, off, zero), last));
  // Where the largest is no number, a class that there is.
  const auto none = p.integer(static_cast<int64_t>(z.shape().back()) - 1,
                              z.shape());
  const auto best = p.reduce(
    "minimum", p.select(p.compare("EQ", z, wide), numbers, none), last);
  at.loss = {mean_of_places(at, losses),
             count_of(p, p.compare("EQ", best, labels)), best};
  at.kept = {e, sum, named};
  return at.loss.losses;
}

OpGradients softmax_loss_backward(LoweredOp& at, const Tensor&) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& z = at.inputs[0];
  const auto places = elements(z.shape()) / z.shape().back() / at.rows;
  const auto shares = p.divide(at.kept[0],
                               p.broadcast_along_rows(at.kept[1], z.shape()));
  const auto off = p.subtract(shares,
                              p.select(at.kept[2], p.constant(1, z.shape()),
                                       p.constant(0, z.shape())));
  out.inputs[0] = p.binary("multiply", off, 1.0f / static_cast<float>(places));
  return out;
}

// -- sigmoid ------------------------------------------------------------------

Tensor sigmoid_loss_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& z = at.inputs[0];
  const auto zero = p.constant(0, z.shape());
  const auto labels = p.convert(*at.batch.labels, Element::f32);
  const auto positive = p.compare("GT", z, zero);
  const auto rest =
    p.unary("log_plus_one",
            p.unary("exponential", p.unary("negate", p.unary("abs", z))));
  const auto losses =
    p.add(p.subtract(p.select(positive, z, zero), p.multiply(z, labels)), rest);
  const auto classes = p.convert(positive, Element::i32);
  at.loss = {mean_of_places(at, losses),
             count_of(p, p.compare("EQ", classes, *at.batch.labels)), classes};
  at.kept = {labels};
  return at.loss.losses;
}

OpGradients sigmoid_loss_backward(LoweredOp& at, const Tensor&) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& z = at.inputs[0];
  const auto places = elements(z.shape()) / at.rows;
  out.inputs[0] = p.binary("multiply",
                           p.subtract(p.unary("logistic", z), at.kept[0]),
                           1.0f / static_cast<float>(places));
  return out;
}

// -- squares ------------------------------------------------------------------

Tensor squared_loss_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto off = p.subtract(at.inputs[0], *at.batch.targets);
  at.loss = {mean_of_places(at, p.multiply(off, off)), std::nullopt,
             std::nullopt};
  at.kept = {off};
  return at.loss.losses;
}

OpGradients squared_loss_backward(LoweredOp& at, const Tensor&) {
  OpGradients out{{std::nullopt}, {}};
  const auto places = elements(at.inputs[0].shape()) / at.rows;
  if (at.wants[0])
    out.inputs[0] = at.program.binary("multiply", at.kept[0],
                                      2.0f / static_cast<float>(places));
  return out;
}

} // namespace troupe::kernels::stablehlo

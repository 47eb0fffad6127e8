// Norms over rows or over channels, and softmax.

#include "kernels/base/error.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

namespace troupe::kernels::stablehlo {

namespace {

/// A vector of channels, for each place of x.
Tensor per_channel(Program& p, const Tensor& vector, const Tensor& x) {
  return p.broadcast_to_rows(vector, x.shape());
}

Tensor per_row(Program& p, const Tensor& values, const Tensor& x) {
  return p.broadcast_along_rows(values, x.shape());
}

Tensor inverse_deviation(Program& p, const Tensor& variance, float epsilon) {
  return p.unary("rsqrt", p.binary("add", variance, epsilon));
}

Tensor mean_over(Program& p, const Tensor& x,
                 const std::vector<uint32_t>& extents) {
  uint64_t count = 1;
  for (auto extent : extents)
    count *= x.shape()[extent];
  return p.binary("divide", p.sum(x, extents), static_cast<float>(count));
}

/// What the running variance's gradient is, of the sum of squared deviations:
/// the pooled variance over the step, weighed by rows (variance_share() of
/// engine/operator.hpp). Where nothing has two values, the running one stays.
Tensor variance_gradient(LoweredOp& at, const Tensor& variance,
                         uint64_t places) {
  auto& p = at.program;
  const auto& shape = variance.shape();
  const auto& rows = *at.batch.step_rows;
  const auto values = p.binary("multiply", rows, static_cast<float>(places));
  const auto spare = p.subtract(values, *at.batch.step_leaves);
  const auto share = p.broadcast(p.divide(rows, spare), shape, {});
  const auto count = static_cast<float>(at.rows * places);
  const auto pooled = p.multiply(p.binary("multiply", variance, count), share);
  const auto kept = p.binary("multiply", at.parameters[3],
                             static_cast<float>(at.rows));
  const auto any = p.compare("GT", spare, p.constant(0));
  return p.select(p.broadcast(any, shape, {}), pooled, kept);
}

} // namespace

// -- batch norm ---------------------------------------------------------------

Tensor batch_norm_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto& attributes = at.attributes();
  if (attributes.cross_replica)
    throw InputError("operator " + at.op.name
                     + ": batch_norm with cross_replica is not written as "
                       "StableHLO; drop cross_replica, or use cpu:N");
  const auto outer = first_extents(x.rank() - 1);
  auto mean = at.parameters[2];
  auto variance = at.parameters[3];
  if (at.training) {
    mean = mean_over(p, x, outer);
    const auto off = p.subtract(x, per_channel(p, mean, x));
    variance = mean_over(p, p.multiply(off, off), outer);
  }
  const auto inverse = inverse_deviation(p, variance, attributes.epsilon);
  const auto normal = p.multiply(p.subtract(x, per_channel(p, mean, x)),
                                 per_channel(p, inverse, x));
  const auto z = p.add(p.multiply(normal, per_channel(p, at.parameters[0], x)),
                       per_channel(p, at.parameters[1], x));
  at.kept = {normal, inverse, z, mean, variance};
  return activated(p, attributes.activation, z);
}

OpGradients batch_norm_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto& normal = at.kept[0];
  const auto outer = first_extents(x.rank() - 1);
  const auto dz = activation_gradient(p, at.attributes().activation, at.kept[2],
                                      d);
  const auto shift = p.sum(dz, outer);
  const auto scale = p.sum(p.multiply(dz, normal), outer);
  const auto places = elements(x.shape()) / x.shape().back() / at.rows;
  OpGradients out{
    {std::nullopt},
    {scale, shift,
     p.binary("multiply", at.kept[3], static_cast<float>(at.rows)),
     variance_gradient(at, at.kept[4], places)}};
  if (!at.wants[0])
    return out;
  const auto count = static_cast<float>(at.rows * places);
  const auto mean_of = [&](const Tensor& sum) {
    return per_channel(p, p.binary("divide", sum, count), x);
  };
  const auto centred = p.subtract(p.subtract(dz, mean_of(shift)),
                                  p.multiply(normal, mean_of(scale)));
  const auto factor = p.multiply(at.parameters[0], at.kept[1]);
  out.inputs[0] = p.multiply(centred, per_channel(p, factor, x));
  return out;
}

// -- layer norm, rms norm -----------------------------------------------------

Tensor row_norm_forward(LoweredOp& at) {
  auto& p = at.program;
  auto x = at.inputs[0];
  const std::vector<uint32_t> last{x.rank() - 1};
  if (at.op.kind == OpKind::layer_norm)
    x = p.subtract(x, per_row(p, mean_over(p, x, last), x));
  const auto variance = mean_over(p, p.multiply(x, x), last);
  const auto inverse =
    per_row(p, inverse_deviation(p, variance, at.attributes().epsilon), x);
  const auto normal = p.multiply(x, inverse);
  at.kept = {normal, inverse};
  auto y = p.multiply(normal, per_channel(p, at.parameters[0], x));
  if (at.parameters.size() > 1)
    y = p.add(y, per_channel(p, at.parameters[1], x));
  return y;
}

OpGradients row_norm_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  const auto& normal = at.kept[0];
  const auto outer = first_extents(d.rank() - 1);
  const std::vector<uint32_t> last{d.rank() - 1};
  OpGradients out{{std::nullopt}, {p.sum(p.multiply(d, normal), outer)}};
  if (at.parameters.size() > 1)
    out.parameters.push_back(p.sum(d, outer));
  if (!at.wants[0])
    return out;
  const auto scaled = p.multiply(d, per_channel(p, at.parameters[0], d));
  const auto along = mean_over(p, p.multiply(scaled, normal), last);
  auto rest = p.subtract(scaled, p.multiply(normal, per_row(p, along, d)));
  if (at.op.kind == OpKind::layer_norm)
    rest = p.subtract(rest, per_row(p, mean_over(p, scaled, last), d));
  out.inputs[0] = p.multiply(rest, at.kept[1]);
  return out;
}

// -- softmax ------------------------------------------------------------------

Tensor softmax_of(Program& p, const Tensor& z) {
  const std::vector<uint32_t> last{z.rank() - 1};
  const auto largest = p.reduce("maximum", z, last);
  const auto e = p.unary("exponential", p.subtract(z, per_row(p, largest, z)));
  return p.divide(e, per_row(p, p.sum(e, last), z));
}

Tensor softmax_forward(LoweredOp& at) {
  return softmax_of(at.program, at.inputs[0]);
}

OpGradients softmax_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& y = at.output;
  const auto along = p.sum(p.multiply(d, y), {d.rank() - 1});
  out.inputs[0] = p.multiply(y, p.subtract(d, per_row(p, along, d)));
  return out;
}

} // namespace troupe::kernels::stablehlo

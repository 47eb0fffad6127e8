// Operators that are products: dense layers, attention and its places, pairs of
// vectors.

#include "kernels/graph/rotary_turns.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::stablehlo {

// -- dense --------------------------------------------------------------------

Tensor dense_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const uint32_t inner = at.attributes().transposed ? 1 : 0;
  auto z = p.dot(x, at.parameters[0], {{}, {}, {x.rank() - 1}, {inner}});
  if (at.attributes().bias)
    z = p.add(z, p.broadcast_to_rows(at.parameters[1], z.shape()));
  at.kept = {z};
  return activated(p, at.attributes().activation, z);
}

OpGradients dense_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto& weight = at.parameters[0];
  const bool transposed = at.attributes().transposed;
  const auto dz = activation_gradient(p, at.attributes().activation, at.kept[0],
                                      d);
  const auto outer = first_extents(x.rank() - 1);
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = p.dot(dz, weight,
                          {{}, {}, {dz.rank() - 1}, {transposed ? 0u : 1u}});
  out.parameters.push_back(transposed ? p.dot(dz, x, {{}, {}, outer, outer})
                                      : p.dot(x, dz, {{}, {}, outer, outer}));
  if (at.attributes().bias)
    out.parameters.push_back(p.sum(dz, outer));
  return out;
}

// -- attention ----------------------------------------------------------------

namespace {

/// Query, key and value of x [rows, t, (heads + 2 key heads) width], each
/// [rows, t, heads, width]: keys and values once for each head of queries.
struct Heads {
  Tensor query;
  Tensor key;
  Tensor value;
  float scale;
};

Heads heads_of(LoweredOp& at) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const uint64_t heads = at.attributes().heads;
  const uint64_t key_heads = at.attributes().key_heads();
  const auto width = x.shape()[2] / (heads + 2 * key_heads);
  const auto part = [&](uint64_t begin, uint64_t count) {
    return p.reshape(p.slice(x, 2, begin * width, (begin + count) * width),
                     {x.shape()[0], x.shape()[1], count, width});
  };
  const auto shared = [&](const Tensor& few) {
    if (heads == key_heads)
      return few;
    const Shape each{x.shape()[0], x.shape()[1], key_heads, heads / key_heads,
                     width};
    return p.reshape(p.broadcast(few, each, {0, 1, 2, 4}),
                     {x.shape()[0], x.shape()[1], heads, width});
  };
  return {part(0, heads), shared(part(heads, key_heads)),
          shared(part(heads + key_heads, key_heads)),
          1.0f / std::sqrt(static_cast<float>(width))};
}

/// Of queries by keys [rows, heads, t, t]: the key is not later.
Tensor seen(Program& p, const Shape& shape) {
  const TensorType type{shape, Element::i32};
  return p.compare("GE", p.iota(type, 2), p.iota(type, 3));
}

/// [rows, heads, t, width] to [rows, t, d].
Tensor side_by_side(Program& p, const Tensor& of_heads) {
  const auto turned = p.transpose(of_heads, {0, 2, 1, 3});
  const auto& shape = turned.shape();
  return p.reshape(turned, {shape[0], shape[1], shape[2] * shape[3]});
}

/// The same of heads that queries share in groups: the sum over each.
Tensor side_by_side(Program& p, const Tensor& of_heads, uint64_t key_heads) {
  const auto& shape = of_heads.shape();
  if (shape[1] == key_heads)
    return side_by_side(p, of_heads);
  const Shape groups{shape[0], key_heads, shape[1] / key_heads, shape[2],
                     shape[3]};
  return side_by_side(p, p.sum(p.reshape(of_heads, groups), {2}));
}

} // namespace

Tensor attention_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto of = heads_of(at);
  auto z = p.binary(
    "multiply", p.dot(of.query, of.key, {{0, 2}, {0, 2}, {3}, {3}}), of.scale);
  if (at.attributes().causal)
    z = p.select(seen(p, z.shape()), z, p.constant(-INFINITY, z.shape()));
  const auto weights = softmax_of(p, z);
  at.kept = {of.query, of.key, of.value, weights};
  return side_by_side(p, p.dot(weights, of.value, {{0, 1}, {0, 2}, {3}, {1}}));
}

/// A key that a query does not see has weight 0, and so no gradient.
OpGradients attention_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& query = at.kept[0];
  const auto& key = at.kept[1];
  const auto& value = at.kept[2];
  const auto& weights = at.kept[3];
  const auto dy = p.reshape(d, query.shape());
  const auto dw = p.dot(dy, value, {{0, 2}, {0, 2}, {3}, {3}});
  const auto mean = p.sum(p.multiply(dw, weights), {3});
  const auto scale = 1.0f / std::sqrt(static_cast<float>(query.shape()[3]));
  const auto dz = p.binary(
    "multiply",
    p.multiply(weights,
               p.subtract(dw, p.broadcast_along_rows(mean, dw.shape()))),
    scale);
  const auto keys = at.attributes().key_heads();
  out.inputs[0] = p.concatenate(
    {side_by_side(p, p.dot(dz, key, {{0, 1}, {0, 2}, {3}, {1}})),
     side_by_side(p, p.dot(dz, query, {{0, 1}, {0, 2}, {2}, {1}}), keys),
     side_by_side(p, p.dot(weights, dy, {{0, 1}, {0, 2}, {2}, {1}}), keys)},
    2);
  return out;
}

// -- rotary -------------------------------------------------------------------

namespace {

/// x [rows, t, (heads + 2 key heads) width], whose queries and keys are turned,
/// forth or back.
Tensor turned(LoweredOp& at, const Tensor& x, bool back) {
  auto& p = at.program;
  const uint64_t rows = x.shape()[0];
  const uint64_t length = x.shape()[1];
  const uint64_t heads = at.attributes().heads + at.attributes().key_heads();
  const auto width = x.shape()[2] / (heads + at.attributes().key_heads());
  const auto half = width / 2;
  const auto turns = p.numbers(rotary_turns(at.attributes(), width, length),
                               {length, 2, half});
  const bool interleaved = at.attributes().interleaved;
  const Shape pairs = interleaved ? Shape{rows, length, heads, half, 2}
                                  : Shape{rows, length, heads, 2, half};
  const uint32_t side = interleaved ? 4 : 3;
  const auto points = p.reshape(p.slice(x, 2, 0, heads * width), pairs);
  const auto a = p.slice(points, side, 0, 1);
  const auto b = p.slice(points, side, 1, 2);
  const auto of_pairs = [&](uint64_t which) {
    const auto some = p.reshape(p.slice(turns, 1, which, which + 1),
                                {length, half});
    return p.broadcast(some, a.shape(), {1, interleaved ? 3u : 4u});
  };
  const auto cosine = of_pairs(0);
  const auto sine = of_pairs(1);
  const auto done =
    p.concatenate({p.binary(back ? "add" : "subtract", p.multiply(a, cosine),
                            p.multiply(b, sine)),
                   p.binary(back ? "subtract" : "add", p.multiply(b, cosine),
                            p.multiply(a, sine))},
                  side);
  return p.concatenate({p.reshape(done, {rows, length, heads * width}),
                        p.slice(x, 2, heads * width, x.shape()[2])},
                       2);
}

} // namespace

Tensor rotary_forward(LoweredOp& at) {
  return turned(at, at.inputs[0], false);
}

OpGradients rotary_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = turned(at, d, true);
  return out;
}

// -- pairs of vectors ---------------------------------------------------------

namespace {

/// Where the pairs i > j lie in [n, n], by i, then j.
std::vector<int32_t> pair_places(uint64_t n) {
  std::vector<int32_t> out;
  for (uint64_t i = 1; i < n; ++i)
    for (uint64_t j = 0; j < i; ++j)
      out.push_back(static_cast<int32_t>(i * n + j));
  return out;
}

/// For each place of [n, n] its pair, whichever way round; on the diagonal the
/// number of pairs.
std::vector<int32_t> pair_of_place(uint64_t n) {
  std::vector<int32_t> out;
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      const auto high = std::max(i, j);
      const auto pair = i == j ? n * (n - 1) / 2
                               : high * (high - 1) / 2 + std::min(i, j);
      out.push_back(static_cast<int32_t>(pair));
    }
  return out;
}

} // namespace

Tensor interaction_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto n = x.shape()[1];
  const auto all = p.dot(x, x, {{0}, {0}, {2}, {2}});
  return p.take_columns(p.reshape(all, {at.rows, n * n}),
                        p.table(pair_places(n)));
}

OpGradients interaction_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& x = at.inputs[0];
  const auto n = x.shape()[1];
  const auto with_zero = p.concatenate({d, p.constant(0, {at.rows, 1})}, 1);
  const auto each = p.reshape(
    p.take_columns(with_zero, p.table(pair_of_place(n))), {at.rows, n, n});
  out.inputs[0] = p.dot(each, x, {{0}, {0}, {2}, {1}});
  return out;
}

Tensor factorization_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto sum = p.sum(x, {1});
  at.kept = {sum};
  const auto both = p.subtract(p.multiply(sum, sum),
                               p.sum(p.multiply(x, x), {1}));
  return p.reshape(p.binary("multiply", p.sum(both, {1}), 0.5f), at.shape());
}

OpGradients factorization_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& x = at.inputs[0];
  const auto others = p.subtract(p.broadcast(at.kept[0], x.shape(), {0, 2}), x);
  const auto each = p.reshape(d, {at.rows});
  out.inputs[0] = p.multiply(p.broadcast(each, x.shape(), {0}), others);
  return out;
}

} // namespace troupe::kernels::stablehlo

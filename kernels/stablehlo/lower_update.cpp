#include "kernels/base/require.hpp"
#include "kernels/optimizer/terms.hpp"
#include "kernels/stablehlo/lower_graph.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <cmath>
#include <optional>
#include <utility>

namespace troupe::kernels::stablehlo {

namespace {

/// The numbers of an update, each for all elements of a parameter.
class Numbers {
public:
  Numbers(Program& program, Tensor all)
    : program_(program), all_(std::move(all)) {}

  enum Index : uint64_t {
    samples,
    clip_norm,
    step_size,
    root_scale,
    first_scale,
    keep,
    threshold,
    ftrl_denominator,
  };
  Tensor scalar(Index which) {
    return program_.reshape(program_.slice(all_, 0, which, which + 1), {});
  }
  Tensor of(Index which, const Shape& shape) {
    return program_.broadcast(scalar(which), shape, {});
  }

private:
  Program& program_;
  Tensor all_;
};

struct Variable {
  Tensor value;
  std::vector<Tensor> state;
};

/// One parameter's update, as update() of optimizer.hpp says.
class UpdateWriter {
public:
  UpdateWriter(Program& program, Numbers& numbers, const OptimizerOptions& rule,
               const Parameter& parameter)
    : p_(program), numbers_(numbers), rule_(rule), parameter_(parameter) {}

  /// `mean`: the gradient, divided by the samples and clipped.
  Variable next(const Variable& before, const Tensor& mean) {
    if (parameter_.role == ParameterRole::statistic)
      return {p_.add(before.value,
                     p_.binary("multiply", p_.subtract(mean, before.value),
                               parameter_.momentum)),
              before.state};
    auto g = mean;
    const auto decay = parameter_.decays ? rule_.weight_decay : 0.0f;
    const bool decoupled = rule_.kind == OptimizerKind::adamw
                           || rule_.kind == OptimizerKind::lamb;
    if (decay != 0 && !decoupled)
      g = p_.add(g, p_.binary("multiply", before.value, decay));
    switch (rule_.kind) {
      case OptimizerKind::sgd:
        return {down(before.value, g), {}};
      case OptimizerKind::momentum:
      case OptimizerKind::nesterov:
        return with_momentum(before, g);
      case OptimizerKind::adam:
      case OptimizerKind::adamw:
        return adam(before, g);
      case OptimizerKind::adagrad:
      case OptimizerKind::rmsprop:
        return by_root(before, g);
      case OptimizerKind::ftrl:
        return ftrl(before, g);
      case OptimizerKind::lamb:
        return lamb(before, g);
    }
    require(false, "no such optimizer");
    return before;
  }

private:
  Tensor number(Numbers::Index which) {
    return numbers_.of(which, parameter_.shape);
  }
  Tensor times(const Tensor& a, float b) { return p_.binary("multiply", a, b); }
  /// value - step_size * direction
  Tensor down(const Tensor& value, const Tensor& direction) {
    return p_.subtract(value,
                       p_.multiply(number(Numbers::step_size), direction));
  }
  Tensor blend(const Tensor& old, const Tensor& fresh, double keep) {
    return p_.add(times(old, static_cast<float>(keep)),
                  times(fresh, static_cast<float>(1.0 - keep)));
  }

  Variable with_momentum(const Variable& before, const Tensor& g) {
    const auto m = p_.add(times(before.state[0], rule_.momentum), g);
    const bool ahead = rule_.kind == OptimizerKind::nesterov;
    return {down(before.value, ahead ? p_.add(g, times(m, rule_.momentum)) : m),
            {m}};
  }

  /// sqrt(v) * root_scale + epsilon
  Tensor root(const Tensor& v) {
    return p_.binary(
      "add", p_.multiply(p_.unary("sqrt", v), number(Numbers::root_scale)),
      rule_.epsilon);
  }

  Variable adam(const Variable& before, const Tensor& g) {
    const auto m = blend(before.state[0], g, rule_.beta1);
    const auto v = blend(before.state[1], p_.multiply(g, g), rule_.beta2);
    auto value = before.value;
    if (rule_.kind == OptimizerKind::adamw && parameter_.decays)
      value = p_.multiply(number(Numbers::keep), value);
    return {down(value, p_.divide(m, root(v))), {m, v}};
  }

  Variable by_root(const Variable& before, const Tensor& g) {
    const auto square = p_.multiply(g, g);
    const auto v = rule_.kind == OptimizerKind::adagrad
                     ? p_.add(before.state[0], square)
                     : blend(before.state[0], square, rule_.beta2);
    return {down(before.value, p_.divide(g, root(v))), {v}};
  }

  Variable ftrl(const Variable& before, const Tensor& g) {
    const auto& shape = parameter_.shape;
    const auto zero = p_.constant(0, shape);
    const auto& r = before.state[1];
    const auto root = p_.unary("sqrt",
                               p_.add(p_.multiply(r, r), p_.multiply(g, g)));
    const auto pulled =
      p_.subtract(p_.multiply(number(Numbers::step_size), g),
                  p_.multiply(p_.subtract(root, r), before.value));
    const auto z = p_.add(before.state[0], pulled);
    const auto threshold = number(Numbers::threshold);
    const auto pull = p_.select(p_.compare("LT", z, zero),
                                p_.subtract(zero, threshold), threshold);
    const auto w = p_.divide(p_.subtract(pull, z),
                             p_.add(root, number(Numbers::ftrl_denominator)));
    const auto small = p_.compare("LE", p_.unary("abs", z), threshold);
    const auto value = p_.select(small, zero, w);
    return {p_.select(p_.compare("EQ", root, zero), before.value, value),
            {z, root}};
  }

  /// ||value|| / ||direction||, 1 where either is 0.
  Tensor trust(const Tensor& value, const Tensor& direction) {
    const auto norm = [&](const Tensor& of) {
      return p_.unary("sqrt",
                      p_.sum(p_.multiply(of, of), first_extents(of.rank())));
    };
    const auto a = norm(value);
    const auto b = norm(direction);
    const auto zero = p_.constant(0);
    const auto one = p_.constant(1);
    const auto ratio = p_.select(p_.compare("EQ", b, zero), one,
                                 p_.divide(a, b));
    return p_.broadcast(p_.select(p_.compare("EQ", a, zero), one, ratio),
                        parameter_.shape, {});
  }

  Variable lamb(const Variable& before, const Tensor& g) {
    const auto m = blend(before.state[0], g, rule_.beta1);
    const auto v = blend(before.state[1], p_.multiply(g, g), rule_.beta2);
    auto u = p_.divide(p_.multiply(number(Numbers::first_scale), m), root(v));
    if (rule_.weight_decay != 0 && parameter_.decays)
      u = p_.add(u, times(before.value, rule_.weight_decay));
    return {down(before.value, p_.multiply(trust(before.value, u), u)), {m, v}};
  }

  Program& p_;
  Numbers& numbers_;
  const OptimizerOptions& rule_;
  const Parameter& parameter_;
};

/// What the mean gradients are multiplied with, so that their norm together is
/// the limit at most; as clip_scale() of norms.hpp, which squares in double:
/// here the largest element is taken out of what is squared.
Tensor clipping(Program& p, Numbers& numbers, const Graph& graph,
                const std::vector<Tensor>& sums) {
  const auto zero = p.constant(0);
  std::vector<Tensor> trained;
  for (size_t i = 0; i < sums.size(); ++i)
    if (graph.parameters[i].role == ParameterRole::trained)
      trained.push_back(sums[i]);
  auto largest = zero;
  for (const auto& sum : trained)
    largest = p.binary("maximum", largest,
                       p.reduce("maximum", p.unary("abs", sum),
                                first_extents(sum.rank())));
  const auto unit = p.select(p.compare("EQ", largest, zero), p.constant(1),
                             largest);
  auto squares = zero;
  for (const auto& sum : trained) {
    const auto shares = p.divide(sum, p.broadcast(unit, sum.shape(), {}));
    squares = p.add(squares, p.sum(p.multiply(shares, shares),
                                   first_extents(sum.rank())));
  }
  const auto norm = p.divide(p.multiply(unit, p.unary("sqrt", squares)),
                             numbers.scalar(Numbers::samples));
  const auto limit = numbers.scalar(Numbers::clip_norm);
  const auto scale = p.divide(limit, p.binary("add", norm, 1e-6f));
  return p.select(p.compare("LE", norm, limit), p.constant(1), scale);
}

/// How many elements are not finite. (A reduction by "maximum" may lose a NaN.)
Tensor spoiled_of(Program& p, const std::vector<Tensor>& sums) {
  auto count = p.constant(0);
  for (const auto& sum : sums) {
    const auto one = p.constant(1, sum.shape());
    const auto zero = p.constant(0, sum.shape());
    const auto spoiled = p.select(p.is_finite(sum), zero, one);
    count = p.add(count, p.sum(spoiled, first_extents(sum.rank())));
  }
  return count;
}

} // namespace

UpdateNumbers update_numbers(const OptimizerOptions& rule, uint64_t step,
                             float learning_rate, float samples,
                             double clip_norm) {
  const float nothing = 0; // pointers that the terms want, and nobody follows
  UpdateArgs args;
  args.gradient_sum = args.in = args.state_in = &nothing;
  args.samples = samples;
  args.step = step;
  args.learning_rate = learning_rate;
  const auto terms = update_terms(rule, args);
  UpdateNumbers out;
  out.samples = samples;
  out.clip_norm = static_cast<float>(clip_norm);
  out.step_size = terms.step_size;
  out.root_scale = terms.root_scale;
  out.first_scale = terms.first_scale;
  out.keep = terms.keep;
  out.threshold = terms.threshold;
  out.ftrl_denominator = terms.epsilon;
  return out;
}

Program update_program(const Graph& graph, const OptimizerOptions& rule,
                       UpdateShape shape) {
  Program p;
  const auto count = static_cast<uint32_t>(graph.parameters.size());
  const auto slots = state_slots(rule.kind);
  std::vector<Variable> before;
  std::vector<Tensor> sums;
  for (uint32_t i = 0; i < count; ++i)
    before.push_back({p.argument({graph.parameters[i].shape}, i), {}});
  for (uint32_t slot = 0; slot < slots; ++slot)
    for (uint32_t i = 0; i < count; ++i)
      before[i].state.push_back(
        p.argument({graph.parameters[i].shape}, (1 + slot) * count + i));
  for (const auto& parameter : graph.parameters)
    sums.push_back(p.argument({parameter.shape}));
  Numbers numbers{p, p.argument({{update_number_count}})};

  const auto spoiled = spoiled_of(p, sums);
  const auto finite = p.compare("EQ", spoiled, p.constant(0));
  std::optional<Tensor> clip;
  if (shape.clips)
    clip = clipping(p, numbers, graph, sums);
  std::vector<Variable> after;
  for (uint32_t i = 0; i < count; ++i) {
    const auto& parameter = graph.parameters[i];
    const auto& extents = parameter.shape;
    const auto mean = p.divide(sums[i], numbers.of(Numbers::samples, extents));
    const bool trained = parameter.role == ParameterRole::trained;
    const auto g = clip && trained
                     ? p.multiply(mean, p.broadcast(*clip, extents, {}))
                     : mean;
    UpdateWriter writer{p, numbers, rule, parameter};
    auto next = writer.next(before[i], g);
    auto taken = p.broadcast(finite, extents, {});
    if (shape.lazy_tables && parameter.by_rows)
      taken = p.binary("and", taken,
                       p.compare("NE", sums[i], p.constant(0, extents)));
    next.value = p.select(taken, next.value, before[i].value);
    for (uint32_t slot = 0; slot < slots && trained; ++slot)
      next.state[slot] = p.select(taken, next.state[slot],
                                  before[i].state[slot]);
    after.push_back(std::move(next));
  }
  for (const auto& variable : after)
    p.result(variable.value);
  for (uint32_t slot = 0; slot < slots; ++slot)
    for (const auto& variable : after)
      p.result(variable.state[slot]);
  p.result(spoiled);
  return p;
}

} // namespace troupe::kernels::stablehlo

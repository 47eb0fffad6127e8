// Operators that work element by element.

#include "kernels/numbers/random.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <cmath>

namespace troupe::kernels::stablehlo {

namespace {

struct Normal {
  Tensor distribution;
  Tensor density;
};

/// The normal distribution as the CPU's loop has it (cpu/activation_leaf.inc),
/// whose tail is exp(-x^2 / 2) times a polynomial: StableHLO itself has no erf.
Normal normal_of(Program& p, const Tensor& x) {
  constexpr float coefficients[] = {-2.14699540e-5f, 1.20747362e-4f,
                                    3.60735871e-4f,  -1.37920550e-3f,
                                    -1.55156886e-3f, 1.90653801e-2f,
                                    -6.16406873e-2f, 1.25855297e-1f,
                                    -1.87139660e-1f, 1.06345154e-1f};
  const auto a = p.binary("minimum", p.unary("abs", x), 1e4f);
  const auto t = p.divide(p.binary("subtract", a, 3.5f),
                          p.binary("add", a, 3.5f));
  auto polynomial = p.constant(coefficients[0], x.shape());
  for (size_t i = 1; i < std::size(coefficients); ++i)
    polynomial = p.binary("add", p.multiply(polynomial, t), coefficients[i]);
  const auto e = p.unary("exponential",
                         p.binary("multiply", p.multiply(x, x), -0.5f));
  const auto tail = p.multiply(polynomial, e);
  const auto zero = p.constant(0, x.shape());
  const auto one = p.constant(1, x.shape());
  return {p.select(p.compare("LT", x, zero), tail, p.subtract(one, tail)),
          p.binary("multiply", e, 0.39894228f)};
}

/// gelu_tanh(x) is x times the sigmoid of twice what tanh is taken of.
struct Logistic {
  Tensor share; ///< that sigmoid
  Tensor slope; ///< of its argument
};

Logistic logistic_of(Program& p, const Tensor& x) {
  const auto limited = // far from where anything changes any more
    p.binary("maximum", p.binary("minimum", x, 1e4f), -1e4f);
  const auto square = p.multiply(limited, limited);
  constexpr float linear = 1.59576912f; // 2 sqrt(2 / pi)
  const auto argument = p.multiply(
    limited,
    p.binary("add", p.binary("multiply", square, 0.0713548163f), linear));
  return {p.unary("logistic", argument),
          p.binary("add", p.binary("multiply", square, 0.214064449f), linear)};
}

/// The slope of z times a sigmoid, `share`, whose argument has that slope.
Tensor slope_of_product(Program& p, const Tensor& z, const Tensor& share,
                        const Tensor& slope) {
  const auto one = p.constant(1, z.shape());
  const auto change = p.multiply(p.subtract(one, share), slope);
  return p.multiply(share, p.add(one, p.multiply(z, change)));
}

} // namespace

Tensor activated(Program& p, Activation kind, const Tensor& z) {
  switch (kind) {
    case Activation::none:
      return z;
    case Activation::relu: {
      const auto zero = p.constant(0, z.shape());
      return p.select(p.compare("LT", z, zero), zero, z); // a NaN stays
    }
    case Activation::gelu:
      return p.multiply(z, normal_of(p, z).distribution);
    case Activation::silu:
      return p.multiply(z, p.unary("logistic", z));
    case Activation::tanh:
      return p.unary("tanh", z);
    case Activation::sigmoid:
      return p.unary("logistic", z);
    case Activation::gelu_tanh:
      return p.multiply(z, logistic_of(p, z).share);
  }
  return z;
}

Tensor activation_gradient(Program& p, Activation kind, const Tensor& z,
                           const Tensor& d) {
  const auto one = [&] { return p.constant(1, z.shape()); };
  switch (kind) {
    case Activation::none:
      return d;
    case Activation::relu: {
      const auto zero = p.constant(0, z.shape());
      return p.select(p.compare("LE", z, zero), zero, d);
    }
    case Activation::gelu: {
      const auto normal = normal_of(p, z);
      return p.multiply(d, p.add(normal.distribution,
                                 p.multiply(z, normal.density)));
    }
    case Activation::silu: {
      const auto s = p.unary("logistic", z);
      return p.multiply(d, slope_of_product(p, z, s, one()));
    }
    case Activation::tanh: {
      const auto y = p.unary("tanh", z);
      return p.multiply(d, p.subtract(one(), p.multiply(y, y)));
    }
    case Activation::sigmoid: {
      const auto y = p.unary("logistic", z);
      return p.multiply(d, p.multiply(y, p.subtract(one(), y)));
    }
    case Activation::gelu_tanh: {
      const auto logistic = logistic_of(p, z);
      return p.multiply(d,
                        slope_of_product(p, z, logistic.share, logistic.slope));
    }
  }
  return d;
}

Tensor activation_forward(LoweredOp& at) {
  return activated(at.program, at.attributes().activation, at.inputs[0]);
}

OpGradients activation_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = activation_gradient(at.program, at.attributes().activation,
                                        at.inputs[0], d);
  return out;
}

// -- gates --------------------------------------------------------------------

namespace {

struct Halves {
  Tensor first;
  Tensor second;
};

/// Of the last extent.
Halves halves_of(Program& p, const Tensor& x) {
  const auto last = x.rank() - 1;
  const auto width = x.shape()[last];
  return {p.slice(x, last, 0, width / 2), p.slice(x, last, width / 2, width)};
}

} // namespace

Tensor swiglu_forward(LoweredOp& at) {
  auto& p = at.program;
  const auto x = halves_of(p, at.inputs[0]);
  return p.multiply(activated(p, Activation::silu, x.first), x.second);
}

OpGradients swiglu_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto x = halves_of(p, at.inputs[0]);
  out.inputs[0] = p.concatenate(
    {activation_gradient(p, Activation::silu, x.first, p.multiply(d, x.second)),
     p.multiply(d, activated(p, Activation::silu, x.first))},
    d.rank() - 1);
  return out;
}

// -- dropout ------------------------------------------------------------------

namespace {

/// a op b for one 64-bit number, or for many and one.
Tensor words(Program& p, const char* op, const Tensor& a, const Tensor& b) {
  return p.binary(op, a, p.broadcast(b, a.shape(), {}));
}

/// mix() of numbers/random.hpp.
Tensor mixed(Program& p, Tensor x) {
  const auto fold = [&](uint64_t shift) {
    return p.binary("xor", x,
                    words(p, "shift_right_logical", x, p.word(shift)));
  };
  x = words(p, "multiply", fold(30), p.word(0xbf58476d1ce4e5b9u));
  x = words(p, "multiply", fold(27), p.word(0x94d049bb133111ebu));
  return fold(31);
}

/// What x is multiplied with: 0, or 1 / (1 - rate). Bit for bit the mask that a
/// CPU draws of the same key.
Tensor dropout_mask(LoweredOp& at) {
  auto& p = at.program;
  const auto shape = at.shape();
  const auto rate = at.attributes().rate;
  const auto stream = (at.stream + 1) * golden;
  const auto seed = mixed(p, words(p, "add", *at.batch.key, p.word(golden)));
  const auto key = mixed(p, words(p, "xor", seed, p.word(stream)));
  const auto index = p.iota({{elements(shape)}, Element::ui64}, 0);
  const auto bits =
    mixed(p, words(p, "add", words(p, "multiply", index, p.word(golden)), key));
  const auto upper = words(p, "shift_right_logical", bits, p.word(40));
  const auto threshold =
    static_cast<uint64_t>(std::llround(double{rate} * 0x1p24));
  const auto kept =
    p.compare("GE", upper, p.broadcast(p.word(threshold), upper.shape(), {}));
  return p.select(p.reshape(kept, shape),
                  p.constant(1.0f / (1.0f - rate), shape),
                  p.constant(0, shape));
}

} // namespace

Tensor dropout_forward(LoweredOp& at) {
  if (!at.training)
    return at.inputs[0];
  at.kept = {dropout_mask(at)};
  return at.program.multiply(at.inputs[0], at.kept[0]);
}

OpGradients dropout_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = at.program.multiply(d, at.kept[0]);
  return out;
}

// -- sums and products --------------------------------------------------------

Tensor add_forward(LoweredOp& at) {
  auto sum = at.inputs[0];
  for (size_t i = 1; i < at.inputs.size(); ++i)
    sum = at.program.add(sum, at.inputs[i]);
  at.kept = {sum};
  return activated(at.program, at.attributes().activation, sum);
}

OpGradients add_backward(LoweredOp& at, const Tensor& d) {
  const auto dz = activation_gradient(at.program, at.attributes().activation,
                                      at.kept[0], d);
  OpGradients out;
  for (size_t i = 0; i < at.inputs.size(); ++i)
    out.inputs.push_back(at.wants[i] ? std::optional{dz} : std::nullopt);
  return out;
}

Tensor multiply_forward(LoweredOp& at) {
  return at.program.multiply(at.inputs[0], at.inputs[1]);
}

OpGradients multiply_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt, std::nullopt}, {}};
  for (size_t i = 0; i < 2; ++i)
    if (at.wants[i])
      out.inputs[i] = at.program.multiply(d, at.inputs[1 - i]);
  return out;
}

Tensor bias_forward(LoweredOp& at) {
  auto& p = at.program;
  return p.add(at.inputs[0], p.broadcast_to_rows(at.parameters[0], at.shape()));
}

OpGradients bias_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {at.program.sum(d, {0})}};
  if (at.wants[0])
    out.inputs[0] = d;
  return out;
}

} // namespace troupe::kernels::stablehlo

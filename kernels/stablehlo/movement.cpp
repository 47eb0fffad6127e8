// Operators that move elements. Extents of a sample are one further in: the
// rows come first.

#include "kernels/stablehlo/lowered_op.hpp"

namespace troupe::kernels::stablehlo {

Tensor concat_forward(LoweredOp& at) {
  return at.program.concatenate(at.inputs, 1 + at.attributes().axis);
}

OpGradients concat_backward(LoweredOp& at, const Tensor& d) {
  const auto extent = 1 + at.attributes().axis;
  OpGradients out;
  uint64_t begin = 0;
  for (size_t i = 0; i < at.inputs.size(); ++i) {
    const auto end = begin + at.inputs[i].shape()[extent];
    out.inputs.emplace_back();
    if (at.wants[i])
      out.inputs.back() = at.program.slice(d, extent, begin, end);
    begin = end;
  }
  return out;
}

Tensor slice_forward(LoweredOp& at) {
  const auto& attributes = at.attributes();
  return at.program.slice(at.inputs[0], 1 + attributes.axis, attributes.begin,
                          attributes.end);
}

OpGradients slice_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& attributes = at.attributes();
  const auto extent = 1 + attributes.axis;
  Program::Padding padding;
  padding.low.assign(d.rank(), 0);
  padding.high.assign(d.rank(), 0);
  padding.between.assign(d.rank(), 0);
  padding.low[extent] = static_cast<int64_t>(attributes.begin);
  padding.high[extent] =
    static_cast<int64_t>(at.inputs[0].shape()[extent] - attributes.end);
  out.inputs[0] = at.program.pad(d, padding);
  return out;
}

Tensor reshape_forward(LoweredOp& at) {
  return at.program.reshape(at.inputs[0], at.shape());
}

OpGradients reshape_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = at.program.reshape(d, at.inputs[0].shape());
  return out;
}

Tensor transpose_forward(LoweredOp& at) {
  std::vector<uint32_t> permutation{0};
  for (auto axis : at.attributes().permutation)
    permutation.push_back(1 + axis);
  return at.program.transpose(at.inputs[0], permutation);
}

OpGradients transpose_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& permutation = at.attributes().permutation;
  std::vector<uint32_t> inverse(permutation.size() + 1);
  for (uint32_t i = 0; i < permutation.size(); ++i)
    inverse[1 + permutation[i]] = 1 + i;
  out.inputs[0] = at.program.transpose(d, inverse);
  return out;
}

} // namespace troupe::kernels::stablehlo

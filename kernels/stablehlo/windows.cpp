// Operators whose windows move over images [rows, height, width, channels].

#include "kernels/base/require.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

namespace troupe::kernels::stablehlo {

namespace {

/// Windows of `size` by the operator's stride and padding; size 0: the image.
Window window_of(const LoweredOp& at) {
  const auto& attributes = at.attributes();
  const bool whole = attributes.kernel == 0;
  Window window;
  for (size_t i = 0; i < 2; ++i) {
    window.size[i] = whole ? at.inputs[0].shape()[1 + i] : attributes.kernel;
    window.stride[i] = whole ? 1 : attributes.stride;
    window.low[i] = window.high[i] = whole ? 0 : attributes.padding;
  }
  return window;
}

/// What leads back from the gradients of windows to the image: the gradients
/// lie `stride` apart, and windows of one step move over them.
Window back_over(const Window& window, const Shape& image,
                 const Shape& windows) {
  Window back;
  for (size_t i = 0; i < 2; ++i) {
    const auto size = static_cast<int64_t>(window.size[i]);
    const auto step = static_cast<int64_t>(window.stride[i]);
    const auto extent = static_cast<int64_t>(image[1 + i]);
    const auto count = static_cast<int64_t>(windows[1 + i]);
    back.size[i] = window.size[i];
    back.base_dilation[i] = window.stride[i];
    back.low[i] = size - 1 - window.low[i];
    back.high[i] = extent - (count - 1) * step - 1 + window.low[i];
  }
  return back;
}

/// The kernel [k, k, channels / groups, units] as one from units to channels.
Tensor turned_kernel(Program& p, const Tensor& kernel, uint64_t groups) {
  const auto& shape = kernel.shape();
  const auto channels = shape[2];
  const auto units = shape[3] / groups;
  auto turned = p.reverse(kernel, {0, 1});
  turned = p.reshape(turned, {shape[0], shape[1], channels, groups, units});
  turned = p.transpose(turned, {0, 1, 4, 3, 2});
  return p.reshape(turned, {shape[0], shape[1], units, groups * channels});
}

} // namespace

Tensor convolution_forward(LoweredOp& at) {
  auto& p = at.program;
  Convolution how;
  how.window = window_of(at);
  how.feature_groups = at.attributes().groups;
  how.shape = at.shape();
  auto z = p.convolve(at.inputs[0], at.parameters[0], how);
  if (at.attributes().bias)
    z = p.add(z, p.broadcast_to_rows(at.parameters[1], z.shape()));
  at.kept = {z};
  return activated(p, at.attributes().activation, z);
}

OpGradients convolution_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  const auto& x = at.inputs[0];
  const auto& kernel = at.parameters[0];
  const auto window = window_of(at);
  const uint64_t groups = at.attributes().groups;
  const auto dz = activation_gradient(p, at.attributes().activation, at.kept[0],
                                      d);
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0]) {
    Convolution back;
    back.window = back_over(window, x.shape(), dz.shape());
    back.feature_groups = groups;
    back.shape = x.shape();
    out.inputs[0] = p.convolve(dz, turned_kernel(p, kernel, groups), back);
  }
  // The rows are what is summed over; the gradient is the kernel.
  Convolution weights;
  weights.input = "f, 0, 1, b";
  weights.kernel = "i, 0, 1, o";
  weights.result = "0, 1, b, f";
  weights.batch_groups = groups;
  weights.shape = kernel.shape();
  for (size_t i = 0; i < 2; ++i) {
    const auto count = static_cast<int64_t>(dz.shape()[1 + i]);
    const auto step = static_cast<int64_t>(window.stride[i]);
    weights.window.size[i] = dz.shape()[1 + i];
    weights.window.window_dilation[i] = window.stride[i];
    weights.window.low[i] = window.low[i];
    weights.window.high[i] =
      static_cast<int64_t>(window.size[i]) + (count - 1) * step
      - static_cast<int64_t>(x.shape()[1 + i]) - window.low[i];
  }
  out.parameters.push_back(p.convolve(x, dz, weights));
  if (at.attributes().bias)
    out.parameters.push_back(p.sum(dz, {0, 1, 2}));
  return out;
}

Tensor max_pool_forward(LoweredOp& at) {
  return at.program.reduce_window("maximum", at.inputs[0], window_of(at),
                                  at.shape());
}

OpGradients max_pool_backward(LoweredOp& at, const Tensor& d) {
  OpGradients out{{std::nullopt}, {}};
  if (at.wants[0])
    out.inputs[0] = at.program.scatter_to_largest(at.inputs[0], d,
                                                  window_of(at));
  return out;
}

namespace {

/// 1 / the number of places of the image in each window [rows, h, w, c].
Tensor shares(LoweredOp& at, const Window& window) {
  auto& p = at.program;
  const auto& image = at.inputs[0].shape();
  const auto shape = at.shape();
  if (window.low[0] == 0)
    return p.constant(
      1.0f / static_cast<float>(window.size[0] * window.size[1]), shape);
  const auto counts = p.reduce_window("add",
                                      p.constant(1, {1, image[1], image[2], 1}),
                                      window, {1, shape[1], shape[2], 1});
  return p.broadcast(p.divide(p.constant(1, counts.shape()), counts), shape,
                     {0, 1, 2, 3});
}

} // namespace

Tensor average_pool_forward(LoweredOp& at) {
  const auto window = window_of(at);
  auto& p = at.program;
  const auto share = shares(at, window);
  at.kept = {share};
  return p.multiply(p.reduce_window("add", at.inputs[0], window, at.shape()),
                    share);
}

OpGradients average_pool_backward(LoweredOp& at, const Tensor& d) {
  auto& p = at.program;
  OpGradients out{{std::nullopt}, {}};
  if (!at.wants[0])
    return out;
  const auto& image = at.inputs[0].shape();
  auto back = back_over(window_of(at), image, d.shape());
  Program::Padding padding{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  for (size_t i = 0; i < 2; ++i) {
    padding.low[1 + i] = back.low[i];
    padding.high[1 + i] = back.high[i];
    padding.between[1 + i] = back.base_dilation[i] - 1;
    back.low[i] = back.high[i] = 0;
  }
  const auto spread = p.pad(p.multiply(d, at.kept[0]), padding);
  out.inputs[0] = p.reduce_window("add", spread, back, image);
  return out;
}

} // namespace troupe::kernels::stablehlo

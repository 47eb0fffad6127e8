#include "kernels/graph/op_shapes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::kernels::shapes {

namespace {

std::string pair_of(const Shape& a, const Shape& b) {
  return to_string(a) + " and " + to_string(b);
}

Shape with_last(Shape shape, uint64_t extent) {
  shape.back() = extent;
  return shape;
}

} // namespace

Shape dense(OpSite& site) {
  const auto& attributes = site.op.attributes;
  site.need(attributes.units > 0, "units");
  site.need_extents(1, "vectors [..., n]");
  const auto inputs = site.shape().back();
  const auto units = attributes.units;
  site.add_weight("weight",
                  attributes.transposed ? Shape{units, inputs}
                                        : Shape{inputs, units},
                  inputs, Initializer::he_uniform, 0);
  if (attributes.bias)
    site.add_parameter("bias", {units}, Initializer::zeros, inputs);
  return with_last(site.shape(), units);
}

namespace {

/// Extents of what a window that moves over an image gives.
Shape moved(OpSite& site, uint64_t channels) {
  const auto& attributes = site.op.attributes;
  const auto& image = site.shape();
  const uint64_t kernel = attributes.kernel;
  const uint64_t padding = attributes.padding;
  site.check(padding < kernel, "padding " + std::to_string(padding)
                                 + " is not smaller than kernel "
                                 + std::to_string(kernel));
  for (size_t i = 0; i < 2; ++i)
    site.check(image[i] + 2 * padding >= kernel,
               "a kernel [" + std::to_string(kernel) + ", "
                 + std::to_string(kernel) + "] with padding "
                 + std::to_string(padding) + " is larger than the image "
                 + to_string(image));
  auto extent = [&](uint64_t size) {
    return (size + 2 * padding - kernel) / attributes.stride + 1;
  };
  return {extent(image[0]), extent(image[1]), channels};
}

void need_image(OpSite& site) {
  site.check(site.shape().size() == 3,
             to_string(site.op.kind)
               + " takes images [height, width, channels], not "
               + to_string(site.shape()));
}

void pad_to_same(OpSite& site) {
  auto& attributes = site.op.attributes;
  if (!site.same_padding)
    return;
  site.check(attributes.kernel % 2 == 1,
             "padding \"same\" needs an odd kernel, not "
               + std::to_string(attributes.kernel));
  attributes.padding = (attributes.kernel - 1) / 2;
}

} // namespace

Shape conv2d(OpSite& site) {
  const auto& attributes = site.op.attributes;
  site.need(attributes.units > 0, "units");
  site.need(attributes.kernel > 0, "kernel");
  need_image(site);
  pad_to_same(site);
  const uint64_t kernel = attributes.kernel;
  const uint64_t groups = attributes.groups;
  const auto channels = site.shape()[2];
  const auto units = attributes.units;
  site.check(channels % groups == 0 && units % groups == 0,
             std::to_string(groups) + " groups divide neither or one of "
               + std::to_string(channels) + " channels and "
               + std::to_string(units) + " units");
  auto output = moved(site, units);
  const auto fan_in = kernel * kernel * channels / groups;
  site.add_weight("weight", {kernel, kernel, channels / groups, units}, fan_in,
                  Initializer::he_uniform, 0);
  if (attributes.bias)
    site.add_parameter("bias", {units}, Initializer::zeros, fan_in);
  return output;
}

Shape pool(OpSite& site) {
  need_image(site);
  auto& attributes = site.op.attributes;
  if (attributes.kernel == 0) {
    site.check(attributes.padding == 0 && !site.same_padding
                 && !site.own_stride,
               "stride and padding need a kernel");
    return {1, 1, site.shape()[2]};
  }
  if (!site.own_stride)
    attributes.stride = attributes.kernel;
  pad_to_same(site);
  return moved(site, site.shape()[2]);
}

Shape batch_norm(OpSite& site) {
  site.need_extents(1, "values [..., channels]");
  const Shape channels{site.shape().back()};
  site.add_parameter("scale", channels, Initializer::ones, 1);
  site.add_parameter("shift", channels, Initializer::zeros, 1);
  site.add_statistic("mean", channels, Initializer::zeros);
  site.add_statistic("variance", channels, Initializer::ones);
  return site.shape();
}

Shape layer_norm(OpSite& site) {
  site.need_extents(1, "vectors [..., n]");
  const Shape last{site.shape().back()};
  site.add_parameter("scale", last, Initializer::ones, 1);
  if (site.op.kind == OpKind::layer_norm && site.op.attributes.bias)
    site.add_parameter("shift", last, Initializer::zeros, 1);
  return site.shape();
}

Shape activation(OpSite& site) {
  site.need(site.op.attributes.activation != Activation::none, "activation");
  return site.shape();
}

Shape softmax(OpSite& site) {
  site.need_extents(1, "vectors [..., n]");
  return site.shape();
}

Shape dropout(OpSite& site) {
  return site.shape();
}

namespace {

void add_table(OpSite& site) {
  auto& attributes = site.op.attributes;
  site.need(attributes.width > 0, "width");
  const uint64_t known = site.sample().vocabulary;
  if (attributes.vocabulary == 0)
    attributes.vocabulary = known;
  site.check(attributes.vocabulary >= known,
             "a table of " + std::to_string(attributes.vocabulary)
               + " rows is too small for ids below " + std::to_string(known));
  site.add_weight("table", {attributes.vocabulary, attributes.width},
                  attributes.vocabulary, Initializer::uniform, 0.05);
}

} // namespace

Shape embedding(OpSite& site) {
  add_table(site);
  return {site.shape()[0], site.op.attributes.width};
}

Shape embedding_bag(OpSite& site) {
  if (site.inputs() == 2)
    site.check(site.shape(0) == site.shape(1),
               "embedding_bag takes a weight for each id, not "
                 + pair_of(site.shape(0), site.shape(1)));
  add_table(site);
  return {site.op.attributes.width};
}

namespace {

/// Elements of a head, of vectors that hold those of queries, keys and values.
uint64_t head_of(OpSite& site) {
  const auto& x = site.shape();
  const auto& attributes = site.op.attributes;
  const auto kind = to_string(site.op.kind);
  const uint64_t heads = attributes.heads;
  const uint64_t keys = attributes.key_heads();
  site.check(heads % keys == 0, std::to_string(keys)
                                  + " key_value_heads do not divide "
                                  + std::to_string(heads) + " heads");
  if (keys == heads) {
    site.check(x.size() == 2 && x[1] % 3 == 0,
               kind + " takes [t, 3 d], query, key and value side by side, not "
                 + to_string(x));
    site.check(x[1] / 3 % heads == 0, std::to_string(heads)
                                        + " heads do not divide the width "
                                        + std::to_string(x[1] / 3));
  }
  site.check(x.size() == 2 && x[1] % (heads + 2 * keys) == 0,
             kind + " of " + std::to_string(heads) + " heads of queries and "
               + std::to_string(keys) + " of keys and values takes [t, "
               + std::to_string(heads + 2 * keys) + " n], not " + to_string(x));
  return x[1] / (heads + 2 * keys);
}

} // namespace

Shape attention(OpSite& site) {
  return {site.shape()[0], site.op.attributes.heads * head_of(site)};
}

Shape rotary(OpSite& site) {
  const auto head = head_of(site);
  site.check(head % 2 == 0, "rotary turns pairs of elements, but heads have "
                              + std::to_string(head));
  return site.shape();
}

Shape swiglu(OpSite& site) {
  site.need_extents(1, "vectors [..., 2 n]");
  const auto width = site.shape().back();
  site.check(width % 2 == 0,
             "swiglu takes vectors [..., 2 n], not " + to_string(site.shape()));
  return with_last(site.shape(), width / 2);
}

Shape interaction(OpSite& site) {
  const auto& x = site.shape();
  site.check(x.size() == 2 && x[0] >= 2,
             "interaction takes two or more vectors [n, d], not "
               + to_string(x));
  return {x[0] * (x[0] - 1) / 2};
}

Shape factorization(OpSite& site) {
  site.check(site.shape().size() == 2,
             "factorization takes vectors [n, d], not "
               + to_string(site.shape()));
  return {1};
}

namespace {

void need_axis(OpSite& site) {
  const auto axis = site.op.attributes.axis;
  site.check(axis < site.shape().size(), "there is no axis "
                                           + std::to_string(axis) + " in "
                                           + to_string(site.shape()));
}

} // namespace

Shape concat(OpSite& site) {
  need_axis(site);
  const auto axis = site.op.attributes.axis;
  auto result = site.shape();
  for (size_t i = 1; i < site.inputs(); ++i) {
    auto other = site.shape(i);
    const bool ranks = other.size() == result.size();
    if (ranks)
      result[axis] += std::exchange(other[axis], site.shape()[axis]);
    site.check(ranks && other == site.shape(),
               "concat takes shapes that differ along axis "
                 + std::to_string(axis) + " alone, not "
                 + pair_of(site.shape(), site.shape(i)));
  }
  return result;
}

Shape slice(OpSite& site) {
  need_axis(site);
  auto& attributes = site.op.attributes;
  auto result = site.shape();
  auto& extent = result[attributes.axis];
  if (attributes.end == 0)
    attributes.end = extent;
  site.check(attributes.begin < attributes.end && attributes.end <= extent,
             "[" + std::to_string(attributes.begin) + ", "
               + std::to_string(attributes.end) + ") is no slice along axis "
               + std::to_string(attributes.axis) + " of "
               + to_string(site.shape()));
  extent = attributes.end - attributes.begin;
  return result;
}

Shape reshape(OpSite& site) {
  auto& shape = site.op.attributes.shape;
  const auto size = elements(site.shape());
  if (shape.empty())
    shape = {size};
  auto left = size;
  for (auto extent : shape)
    left = extent == 0 || left % extent != 0 ? 0 : left / extent;
  site.check(left == 1, "reshape keeps the number of elements, not "
                          + pair_of(site.shape(), shape));
  return shape;
}

Shape transpose(OpSite& site) {
  const auto& permutation = site.op.attributes.permutation;
  site.need(!permutation.empty(), "permutation");
  auto sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> all(site.shape().size());
  std::iota(all.begin(), all.end(), 0u);
  Shape shown(permutation.begin(), permutation.end());
  site.check(sorted == all, to_string(shown)
                              + " does not permute the extents of "
                              + to_string(site.shape()));
  Shape result;
  for (auto axis : permutation)
    result.push_back(site.shape()[axis]);
  return result;
}

Shape same_shapes(OpSite& site) {
  for (size_t i = 1; i < site.inputs(); ++i)
    site.check(
      site.shape() == site.shape(i),
      to_string(site.op.kind)
        + (site.op.kind == OpKind::add ? " takes two or more" : " takes two")
        + " of one shape, not " + pair_of(site.shape(), site.shape(i)));
  return site.shape();
}

Shape bias(OpSite& site) {
  site.add_weight("bias", site.shape(), 1, Initializer::zeros, 0);
  return site.shape();
}

Shape softmax_cross_entropy(OpSite& site) {
  site.need_extents(1, "logits [..., classes]");
  return {};
}

Shape sigmoid_cross_entropy(OpSite& site) {
  site.check(site.shape() == Shape{1},
             "sigmoid_cross_entropy takes one logit [1], not "
               + to_string(site.shape()));
  return {};
}

Shape mean_squared_error(OpSite& site) {
  site.check(site.shape().size() == 1,
             "mean_squared_error takes [n], not " + to_string(site.shape()));
  return {};
}

} // namespace troupe::kernels::shapes

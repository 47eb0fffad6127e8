#include "tests/unit/kernels/graph_builder.hpp"

#include "tests/unit/kernels/activation_reference.hpp"

#include <numeric>
#include <random>

namespace troupe::test {

namespace {

class RandomGraph {
public:
  explicit RandomGraph(uint32_t seed) : random_(seed), builder_(features()) {
    const auto count = 3 + below(10);
    for (uint32_t i = 0; i < count; ++i)
      add_one();
    finish();
  }

  const Graph& graph() const { return builder_.graph; }

private:
  uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>(random_() % bound);
  }
  static Shape features() { return {3, 4}; }

  Activation any_activation() { return all_activations[below(6)]; }

  /// A value, rather a late one.
  uint32_t any_value() {
    const auto count = static_cast<uint32_t>(builder_.graph.values.size());
    return below(2) == 0 ? below(count) : count - 1;
  }

  uint32_t parameter(const Shape& shape) {
    const auto& all = builder_.graph.parameters;
    for (uint32_t i = 0; i < all.size(); ++i)
      if (all[i].shape == shape && below(3) == 0)
        return i;
    return builder_.parameter(shape);
  }

  uint32_t dense(uint32_t x, uint64_t units) {
    const auto n = builder_.shape(x).back();
    const bool transposed = below(2) == 0;
    const auto weight = parameter(transposed ? Shape{units, n}
                                             : Shape{n, units});
    std::optional<uint32_t> bias;
    if (below(2) == 0)
      bias = parameter({units});
    return builder_.dense(x, units, weight, bias, any_activation(), transposed);
  }

  uint32_t add_one() {
    const auto x = any_value();
    const auto shape = builder_.shape(x);
    const auto n = shape.back();
    OpAttributes attributes;
    switch (below(12)) {
      case 0:
        return dense(x, 2 + below(5));
      case 1:
        return builder_.op(OpKind::layer_norm, {x}, shape,
                           {parameter({n}), parameter({n})}, attributes);
      case 2:
        return builder_.op(OpKind::rms_norm, {x}, shape, {parameter({n})},
                           attributes);
      case 3:
        return builder_.activation(x, any_activation());
      case 4:
        return builder_.op(OpKind::softmax, {x}, shape);
      case 5:
        return builder_.dropout(x, 0.25f);
      case 6:
        attributes.activation = any_activation();
        return builder_.op(OpKind::add, alike(x, 2 + below(2)), shape, {},
                           attributes);
      case 7:
        return builder_.op(OpKind::multiply, alike(x, 2), shape);
      case 8:
        return builder_.op(OpKind::bias, {x}, shape, {parameter(shape)});
      case 9:
        return builder_.reshape(x, shape.size() == 1 ? Shape{1, n}
                                                     : Shape{elements(shape)});
      case 10:
        return cut_and_join(x);
      default:
        attributes.permutation.resize(shape.size());
        std::iota(attributes.permutation.rbegin(),
                  attributes.permutation.rend(), 0);
        return builder_.op(OpKind::transpose, {x},
                           Shape(shape.rbegin(), shape.rend()), {}, attributes);
    }
  }

  /// x and others of its shape, x itself among them.
  std::vector<uint32_t> alike(uint32_t x, size_t count) {
    std::vector<uint32_t> same;
    for (uint32_t i = 0; i < builder_.graph.values.size(); ++i)
      if (builder_.shape(i) == builder_.shape(x))
        same.push_back(i);
    std::vector<uint32_t> result{x};
    while (result.size() < count)
      result.push_back(same[below(static_cast<uint32_t>(same.size()))]);
    return result;
  }

  uint32_t cut_and_join(uint32_t x) {
    auto shape = builder_.shape(x);
    OpAttributes attributes;
    attributes.axis = static_cast<uint32_t>(shape.size() - 1);
    if (shape.back() == 1) {
      shape.back() = 2;
      return builder_.op(OpKind::concat, {x, x}, shape, {}, attributes);
    }
    attributes.begin = below(static_cast<uint32_t>(shape.back()) - 1);
    attributes.end = shape.back();
    shape.back() = attributes.end - attributes.begin;
    return builder_.op(OpKind::slice, {x}, shape, {}, attributes);
  }

  void finish() {
    std::vector<uint32_t> read(builder_.graph.values.size(), 0);
    for (const auto& op : builder_.graph.ops)
      for (auto input : op.inputs)
        ++read[input];
    std::vector<uint32_t> loose;
    for (uint32_t i = 0; i < read.size(); ++i)
      if (read[i] == 0)
        loose.push_back(builder_.reshape(i, {elements(builder_.shape(i))}));
    uint64_t width = 0;
    for (auto value : loose)
      width += builder_.shape(value)[0];
    auto all = loose.size() == 1 ? loose[0]
                                 : builder_.op(OpKind::concat, loose, {width});
    builder_.softmax_loss(builder_.dense(all, 3, builder_.parameter({width, 3}),
                                         builder_.parameter({3})));
  }

  std::mt19937 random_;
  Builder builder_;
};

} // namespace

Graph random_graph(uint32_t seed) {
  return RandomGraph(seed).graph();
}

} // namespace troupe::test

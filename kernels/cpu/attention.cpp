#include "kernels/base/require.hpp"
#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/operators.hpp"

#include <cmath>

namespace troupe::kernels {

namespace {

/// Queries, and keys, that are worked on together.
constexpr size_t attention_block = 64;

/// Bits: a product of matrices; its sums follow the blocks, whose size does not
/// depend on anything.
class Attention final : public Operator {
public:
  explicit Attention(const CpuOpSite& site)
    : shape_(attention_shape(site.op.attributes, site.output())) {
    require(site.input(0) == Shape{shape_.length, shape_.stride()},
            "attention takes [t, queries, keys and values]");
  }

  Needs needs() const override {
    Needs needs;
    needs.saved = {2 * shape_.heads * shape_.length, 0};
    needs.scratch = {0, attention_scratch(shape_)};
    needs.backward_reads_inputs = 1;
    needs.backward_reads_output = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    for (size_t r = 0; r < args.rows; ++r)
      attention_table().forward(
        shape_, {args.inputs[0] + r * given(), args.output + r * sample(),
                 args.saved + r * kept(), args.scratch});
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    for (size_t r = 0; r < args.rows; ++r)
      attention_table().backward(
        shape_, {args.inputs[0] + r * given(), args.output + r * sample(),
                 args.output_gradient + r * sample(), args.saved + r * kept(),
                 args.input_gradients[0] + r * given(),
                 args.accumulate_inputs[0] != 0, args.scratch});
  }

private:
  size_t given() const { return shape_.length * shape_.stride(); }
  size_t sample() const { return shape_.length * shape_.width; }
  size_t kept() const { return 2 * shape_.heads * shape_.length; }

  AttentionShape shape_;
};

} // namespace

AttentionShape attention_shape(const OpAttributes& attributes,
                               const Shape& output) {
  AttentionShape shape{output.at(0),      output.at(1),
                       attributes.heads,  attributes.key_heads(),
                       attributes.causal, 1.0f};
  require(shape.heads > 0 && shape.width % shape.heads == 0
            && shape.heads % shape.key_heads == 0,
          "heads of attention");
  shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head()));
  return shape;
}

namespace {

size_t rounded_up(size_t count, size_t to) {
  return (count + to - 1) / to * to;
}

} // namespace

size_t key_cache_size(const AttentionShape& shape) {
  return shape.key_width() * rounded_up(shape.length, attention_block);
}

size_t value_cache_size(const AttentionShape& shape) {
  return shape.key_heads * rounded_up(shape.length, attention_block)
         * rounded_up(shape.head(), 16);
}

size_t attention_scratch(const AttentionShape& shape) {
  // Three packed operands of a head's length and what a block takes: eight
  // squares or operands, and rounding.
  const auto row = rounded_up(shape.head(), 16);
  const auto length = rounded_up(shape.length, attention_block);
  return 3 * length * row + length + 2 * attention_block * attention_block
         + 5 * attention_block * row + 2 * attention_block;
}

OperatorPtr make_attention(const CpuOpSite& site) {
  return std::make_unique<Attention>(site);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/attention_leaf.inc"
#define TABLE_TYPE AttentionTable
#define TABLE_NAME attention_table
#define TABLE_ENTRIES forward, backward, step
#include "kernels/cpu/per_isa.inc"

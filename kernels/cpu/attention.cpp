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
    : shape_{site.output().at(0), site.output().at(1), site.op.attributes.heads,
             site.op.attributes.causal, 1.0f} {
    require(site.input(0) == Shape{shape_.length, 3 * shape_.width},
            "attention takes [t, 3 d]");
    require(shape_.heads > 0 && shape_.width % shape_.heads == 0,
            "heads of attention");
    shape_.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head()));
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
        shape_, {args.inputs[0] + 3 * r * sample(), args.output + r * sample(),
                 args.saved + r * kept(), args.scratch});
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    for (size_t r = 0; r < args.rows; ++r)
      attention_table().backward(
        shape_, {args.inputs[0] + 3 * r * sample(), args.output + r * sample(),
                 args.output_gradient + r * sample(), args.saved + r * kept(),
                 args.input_gradients[0] + 3 * r * sample(),
                 args.accumulate_inputs[0] != 0, args.scratch});
  }

private:
  size_t sample() const { return shape_.length * shape_.width; }
  size_t kept() const { return 2 * shape_.heads * shape_.length; }

  AttentionShape shape_;
};

} // namespace

size_t attention_scratch(const AttentionShape& shape) {
  // Three packed operands of a head's length and what a block takes: eight
  // squares or operands, and rounding.
  const auto row = (shape.head() + 15) / 16 * 16;
  const auto length = (shape.length + attention_block - 1) / attention_block
                      * attention_block;
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
#define TABLE_ENTRIES forward, backward
#include "kernels/cpu/per_isa.inc"

#include "kernels/base/require.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/rotary_loops.hpp"
#include "kernels/graph/rotary_turns.hpp"

namespace troupe::kernels {

RotaryShape rotary_shape(const OpAttributes& attributes, size_t width) {
  const size_t turned = attributes.heads + attributes.key_heads();
  const size_t all = turned + attributes.key_heads();
  require(attributes.heads > 0 && width % all == 0 && width / all % 2 == 0,
          "heads that rotary turns");
  return {turned, width / all, width, attributes.interleaved};
}

namespace {

class Rotary final : public Operator {
public:
  explicit Rotary(const CpuOpSite& site)
    : length_(site.output().at(0)),
      attributes_(site.op.attributes),
      shape_(rotary_shape(attributes_, site.output().at(1))) {}

  Needs needs() const override {
    Needs needs;
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    if (turns_.empty()) // who only plans a pass needs none
      turns_ = rotary_turns(attributes_, shape_.head, length_);
    turn(args.rows, args.inputs[0], args.output, false, false);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      turn(args.rows, args.output_gradient, args.input_gradients[0], true,
           args.accumulate_inputs[0] != 0);
  }

private:
  void turn(uint32_t rows, const float* x, float* y, bool back,
            bool accumulate) const {
    const auto sample = length_ * shape_.stride;
    for (size_t r = 0; r < rows; ++r)
      rotary_table().turn(shape_, {x + r * sample, y + r * sample,
                                   turns_.data(), length_, back, accumulate});
  }

  size_t length_;
  OpAttributes attributes_;
  RotaryShape shape_;
  std::vector<float> turns_;
};

} // namespace

OperatorPtr make_rotary(const CpuOpSite& site) {
  return std::make_unique<Rotary>(site);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/rotary_leaf.inc"
#define TABLE_TYPE RotaryTable
#define TABLE_NAME rotary_table
#define TABLE_ENTRIES turn
#include "kernels/cpu/per_isa.inc"

#include "kernels/cpu/stem.hpp"

#include <algorithm>

namespace troupe::kernels {

bool Stem::takes(const CpuOpSite& site) {
  return site.input(0)[2] <= 4 && site.op.attributes.groups == 1
         && site.precision == Precision::float32;
}

Stem::Stem(const CpuOpSite& site)
  : height_(site.input(0)[0]),
    width_(site.input(0)[1]),
    padding_(site.op.attributes.padding),
    bias_(site.op.attributes.bias),
    relu_(site.op.attributes.activation == Activation::relu),
    shape_{width_ + 2 * padding_,    site.input(0)[2],
           site.output()[0],         site.output()[1],
           site.output()[2],         site.op.attributes.kernel,
           site.op.attributes.stride} {
  // Nothing else.
}

uint64_t Stem::scratch() const {
  return (height_ + 2 * padding_) * shape_.width * shape_.channels;
}

const float* Stem::padded(const OpArgs& args, size_t row) const {
  const auto line = width_ * shape_.channels;
  const float* image = args.inputs[0] + row * height_ * line;
  if (padding_ == 0)
    return image;
  // The border stays zero from the first row on.
  if (row == 0)
    std::fill_n(args.scratch, scratch(), 0.0f);
  for (size_t i = 0; i < height_; ++i)
    std::copy_n(image + i * line, line,
                args.scratch
                  + ((i + padding_) * shape_.width + padding_)
                      * shape_.channels);
  return args.scratch;
}

void Stem::forward(const OpArgs& args) const {
  const auto& loops = stem_loops();
  const auto outputs = shape_.high * shape_.wide * shape_.units;
  for (size_t row = 0; row < args.rows; ++row)
    loops.forward(shape_, padded(args, row), args.parameters[0],
                  bias_ ? args.parameters[1] : nullptr, relu_,
                  args.output + row * outputs);
}

void Stem::backward(const OpArgs& args) const {
  const auto& loops = stem_loops();
  const auto outputs = shape_.high * shape_.wide * shape_.units;
  const auto weights = shape_.kernel * shape_.kernel * shape_.channels
                       * shape_.units;
  const bool gates = relu_ && args.half == BackwardHalf::both;
  if (!args.accumulate_parameters[0])
    std::fill_n(args.parameter_gradients[0], weights, 0.0f);
  if (bias_ && !args.accumulate_parameters[1])
    std::fill_n(args.parameter_gradients[1], shape_.units, 0.0f);
  for (size_t row = 0; row < args.rows; ++row)
    loops.backward(shape_, padded(args, row),
                   args.output_gradient + row * outputs,
                   gates ? args.output + row * outputs : nullptr,
                   args.parameter_gradients[0],
                   bias_ ? args.parameter_gradients[1] : nullptr);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/stem_leaf.inc"
#define TABLE_TYPE StemTable
#define TABLE_NAME stem_loops
#define TABLE_ENTRIES forward, backward
#include "kernels/cpu/per_isa.inc"

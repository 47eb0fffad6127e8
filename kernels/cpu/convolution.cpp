#include "kernels/cpu/convolution.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/depthwise_product.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/stem.hpp"
#include "kernels/cpu/window_product.hpp"

#include <algorithm>
#include <optional>

namespace troupe::kernels {

ConvolutionFrame::ConvolutionFrame(const CpuOpSite& site)
  : site_(site), units_(site.output()[2]), weights_(site.parameter(0).size()) {
  const auto& attributes = site.op.attributes;
  require(attributes.groups > 0 && units_ % attributes.groups == 0
            && site.input(0)[2] % attributes.groups == 0,
          "channels of a convolution not divisible by its groups");
  require(attributes.activation == Activation::none || relu(),
          "build_graph() gives other activations an operator of their own");
  if (!attributes.bias)
    no_bias_ = std::vector<float>(units_);
}

Needs ConvolutionFrame::needs() const {
  Needs needs;
  needs.backward_reads_inputs = 1;
  needs.backward_reads_output = relu();
  needs.scratch = {0, std::max<uint64_t>(units_, scratch())};
  needs.splits = true;
  return needs;
}

void ConvolutionFrame::finish(const OpArgs& args, size_t row,
                              size_t rows) const {
  if (!has_bias() && !relu())
    return;
  const auto before = pixels(args.output, row);
  loops().bias_forward(pixels(args.output + before.rows * units_, rows),
                       has_bias() ? args.parameters[1] : no_bias_.data(),
                       relu());
}

void ConvolutionFrame::backward(const OpArgs& args) {
  if (args.half == BackwardHalf::inputs) {
    pass_relu(args);
  } else {
    give_to_bias(args);
    give_to_weights(args);
  }
  if (args.half != BackwardHalf::weights && args.input_gradients[0] != nullptr)
    give_to_input(args);
}

/// And to the activation, unless the half for inputs has: the output's gradient
/// is that of the sums from here on.
void ConvolutionFrame::give_to_bias(const OpArgs& args) const {
  const bool gates = relu() && args.half == BackwardHalf::both;
  if (!has_bias() && !gates)
    return;
  const bool added = !has_bias() || args.accumulate_parameters[1];
  auto* sums = added ? args.scratch : args.parameter_gradients[1];
  loops().bias_backward(pixels(args.output_gradient, args.rows),
                        gates ? args.output : nullptr, sums);
  if (has_bias() && added)
    loops().add(sums, args.parameter_gradients[1], args.parameter_gradients[1],
                units_);
}

void ConvolutionFrame::pass_relu(const OpArgs& args) const {
  if (relu())
    loops().bias_backward(pixels(args.output_gradient, args.rows), args.output,
                          args.scratch);
}

bool ConvolutionFrame::relu() const {
  return site_.op.attributes.activation == Activation::relu;
}

Rows ConvolutionFrame::pixels(float* values, size_t rows) const {
  const auto& shape = site_.output();
  return {values, units_, rows * shape[0] * shape[1], units_};
}

namespace {

/// [height, width, channels], without gaps.
struct ImageShape {
  size_t height, width, channels;
  size_t size() const { return height * width * channels; }
};

/// The windows of a line that contribute to places of one remainder modulo the
/// stride: a part of the backward pass, a convolution itself, of stride 1.
struct Phase {
  size_t first; ///< place in the input
  size_t count; ///< of places, `stride` apart
  size_t taps;  ///< of the kernel, `stride` apart from `tap` on
  size_t tap;
  size_t place; ///< of the first window's first tap in the padded gradient
};

/// Along one axis: `border` zeros before the gradient of `outputs` places.
class Phases {
public:
  Phases(size_t inputs, size_t outputs, size_t kernel, size_t stride,
         size_t padding)
    : border_((kernel + stride - 1) / stride - 1),
      extent_(border_ + std::max(outputs, (inputs - 1 + padding) / stride + 1)),
      all_(stride) {
    for (size_t tap = 0; tap < stride; ++tap) {
      auto& phase = all_[tap];
      const auto least = padding > tap ? (padding - tap + stride - 1) / stride
                                       : 0;
      phase.tap = tap;
      phase.first = least * stride + tap - padding;
      phase.count =
        phase.first < inputs ? (inputs - phase.first + stride - 1) / stride : 0;
      phase.taps = tap < kernel ? (kernel - tap + stride - 1) / stride : 0;
      phase.place = border_ + least + 1 - std::max<size_t>(phase.taps, 1);
    }
  }

  size_t border() const { return border_; }
  size_t extent() const { return extent_; } ///< with zeros on both sides
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

private:
  size_t border_;
  size_t extent_;
  std::vector<Phase> all_;
};

/// Products of windows with weights, image by image and group by group.
class Convolution final : public ConvolutionFrame {
public:
  explicit Convolution(const CpuOpSite& site)
    : ConvolutionFrame(site),
      in_{site.input(0)[0], site.input(0)[1], site.input(0)[2]},
      out_{site.output()[0], site.output()[1], site.output()[2]},
      kernel_(site.op.attributes.kernel),
      stride_(site.op.attributes.stride),
      padding_(site.op.attributes.padding),
      depthwise_(site.op.attributes.groups == in_.channels
                 && in_.channels == out_.channels),
      groups_(depthwise_ ? 1 : site.op.attributes.groups),
      inputs_(in_.channels / groups_),
      units_(out_.channels / groups_),
      rows_(in_.height, out_.height, kernel_, stride_, padding_),
      columns_(in_.width, out_.width, kernel_, stride_, padding_),
      padded_{in_.height + 2 * padding_, in_.width + 2 * padding_, inputs_},
      padded_gradient_{rows_.extent(), columns_.extent(), units_} {
    if (Stem::takes(site))
      stem_.emplace(site);
  }

  void forward(const OpArgs& args) override {
    if (stem_)
      stem_->forward(args);
    else
      ConvolutionFrame::forward(args);
  }

  void backward(const OpArgs& args) override {
    if (!stem_) {
      ConvolutionFrame::backward(args);
      return;
    }
    if (args.half != BackwardHalf::inputs)
      stem_->backward(args);
    const bool asked = args.input_gradients[0] != nullptr;
    if (args.half == BackwardHalf::inputs
        || (args.half == BackwardHalf::both && asked))
      pass_relu(args);
    if (args.half != BackwardHalf::weights && asked)
      give_to_input(args);
  }

private:
  size_t depth() const { return kernel_ * kernel_ * inputs_; }
  size_t depth_back() const { return kernel_ * kernel_ * units_; }
  size_t packed_size() const {
    if (depthwise_)
      return 0;
    return std::max({PackedColumns::size(depth(), units_),
                     PackedColumns::size(depth_back(), inputs_),
                     PackedColumns::size(max_chain_length, units_)});
  }
  /// Scratch memory: an image with its border, and packed weights or gradients,
  /// or weights turned round.
  float* packed_at(const OpArgs& args) const {
    return args.scratch + std::max(padded_.size(), padded_gradient_.size());
  }
  uint64_t scratch() const override {
    const auto own = std::max(padded_.size(), padded_gradient_.size())
                     + (depthwise_ ? depth() : packed_size());
    return stem_ ? std::max<uint64_t>(own, stem_->scratch()) : own;
  }

  /// The group's channels of a row of the input or of the output's gradient,
  /// with a border of zeros if there must be one. The border is written for the
  /// first row alone.
  static const float* bordered(const float* image, const ImageShape& shape,
                               size_t group, const ImageShape& padded,
                               size_t above, size_t before, bool first,
                               float* to) {
    if (padded.height == shape.height && padded.width == shape.width
        && padded.channels == shape.channels)
      return image;
    if (first)
      std::fill_n(to, padded.size(), 0.0f);
    image += group * padded.channels;
    for (size_t y = 0; y < shape.height; ++y) {
      auto* line = to + ((y + above) * padded.width + before) * padded.channels;
      if (padded.channels == shape.channels)
        std::copy_n(image + y * shape.width * shape.channels,
                    shape.width * shape.channels, line);
      else
        for (size_t x = 0; x < shape.width; ++x)
          std::copy_n(image + (y * shape.width + x) * shape.channels,
                      padded.channels, line + x * padded.channels);
    }
    return to;
  }

  Windows windows(const OpArgs& args, size_t row, size_t group) const {
    const auto* image = bordered(args.inputs[0] + row * in_.size(), in_, group,
                                 padded_, padding_, padding_, row == 0,
                                 args.scratch);
    const auto line = padded_.width * inputs_;
    Windows result;
    result.image = image;
    result.line_step = line;
    result.window_step = stride_ * inputs_;
    result.down_step = stride_ * line;
    result.high = out_.height;
    result.wide = out_.width;
    result.runs = kernel_;
    result.length = kernel_ * inputs_;
    result.first = padding_;
    result.last = padding_ + in_.height;
    return result;
  }

  void multiply(const OpArgs& args) override {
    if (depthwise_) {
      for (size_t row = 0; row < args.rows; ++row) {
        multiply_depthwise(windows(args, row, 0), out_.channels,
                           args.parameters[0], args.output + row * out_.size(),
                           out_.channels, out_.width * out_.channels);
        finish(args, row, 1);
      }
      return;
    }
    PackedColumns weights(depth(), units_, out_.width);
    for (size_t group = 0; group < groups_; ++group) {
      weights.pack(args.parameters[0] + group * units_, out_.channels,
                   packed_at(args));
      for (size_t row = 0; row < args.rows; ++row) {
        kernels::multiply(windows(args, row, group), weights,
                          args.output + row * out_.size() + group * units_,
                          out_.channels, out_.width * out_.channels);
        if (group + 1 == groups_)
          finish(args, row, 1);
      }
    }
  }

  void give_to_weights(const OpArgs& args) override {
    if (depthwise_) {
      for (size_t row = 0; row < args.rows; ++row)
        multiply_depthwise_transposed(windows(args, row, 0), out_.channels,
                                      args.output_gradient + row * out_.size(),
                                      args.parameter_gradients[0],
                                      row > 0 || args.accumulate_parameters[0]);
      return;
    }
    for (size_t group = 0; group < groups_; ++group)
      for (size_t row = 0; row < args.rows; ++row)
        multiply_transposed(
          windows(args, row, group),
          args.output_gradient + row * out_.size() + group * units_,
          out_.channels, units_, args.parameter_gradients[0] + group * units_,
          out_.channels, row > 0 || args.accumulate_parameters[0],
          packed_at(args));
  }

  /// A phase and its weights.
  struct Part {
    const Phase& down;
    const Phase& right;
    const float* turned; ///< if depthwise
    PackedColumns packed;
  };

  void give_to_input(const OpArgs& args) override {
    if (kernel_ < stride_) // some places are in no window
      std::fill_n(args.input_gradients[0], args.rows * in_.size(), 0.0f);
    for (size_t group = 0; group < groups_; ++group) {
      const auto parts = turned_parts(args, group);
      for (size_t row = 0; row < args.rows; ++row) {
        const auto* gradient = bordered_gradient(args, row, group);
        for (const auto& part : parts)
          give_to_part(args, row, group, part, gradient);
      }
    }
  }

  std::vector<Part> turned_parts(const OpArgs& args, size_t group) const {
    std::vector<Part> parts;
    auto* to = packed_at(args);
    for (const auto& down : rows_)
      for (const auto& right : columns_) {
        const auto depth = down.taps * right.taps * units_;
        if (depth * down.count * right.count == 0)
          continue;
        parts.push_back({down, right, to, {depth, inputs_, right.count}});
        turn_weights(args, group, parts.back(), to);
        to += depthwise_ ? depth : PackedColumns::size(depth, inputs_);
      }
    return parts;
  }

  const float* bordered_gradient(const OpArgs& args, size_t row,
                                 size_t group) const {
    return bordered(args.output_gradient + row * out_.size(), out_, group,
                    padded_gradient_, rows_.border(), columns_.border(),
                    row == 0, args.scratch);
  }

  void give_to_part(const OpArgs& args, size_t row, size_t group,
                    const Part& part, const float* gradient) const {
    const auto windows = gradient_windows(gradient, part.down, part.right);
    auto* to = args.input_gradients[0] + row * in_.size()
               + (part.down.first * in_.width + part.right.first) * in_.channels
               + group * inputs_;
    const auto step = stride_ * in_.channels;
    const auto down_step = step * in_.width;
    if (depthwise_)
      multiply_depthwise(windows, in_.channels, part.turned, to, step,
                         down_step);
    else
      kernels::multiply(windows, part.packed, to, step, down_step);
  }

  Windows gradient_windows(const float* gradient, const Phase& down,
                           const Phase& right) const {
    const auto line = padded_gradient_.width * units_;
    const auto after = rows_.border() + out_.height;
    Windows result;
    result.image = gradient + down.place * line + right.place * units_;
    result.line_step = result.down_step = line;
    result.window_step = units_;
    result.high = down.count;
    result.wide = right.count;
    result.runs = down.taps;
    result.length = right.taps * units_;
    result.first = rows_.border() - std::min(rows_.border(), down.place);
    result.last = after - std::min(after, down.place);
    return result;
  }

  /// The part's taps from the last to the first, [taps, taps, units, inputs],
  /// packed; as they are, [taps, taps, channels], where each channel is a
  /// group.
  void turn_weights(const OpArgs& args, size_t group, Part& part,
                    float* to) const {
    const auto& down = part.down;
    const auto& right = part.right;
    size_t at = 0;
    for (size_t i = down.taps; i-- > 0;)
      for (size_t j = right.taps; j-- > 0; ++at) {
        const auto* tap =
          args.parameters[0] + group * units_
          + ((down.tap + i * stride_) * kernel_ + right.tap + j * stride_)
              * (depthwise_ ? 1 : inputs_) * out_.channels;
        if (depthwise_)
          std::copy_n(tap, out_.channels, to + at * out_.channels);
        else
          part.packed.pack_turned(tap, out_.channels, at * units_, units_, to);
      }
  }

  ImageShape in_, out_;
  size_t kernel_, stride_, padding_;
  bool depthwise_;        ///< each channel a group of its own
  size_t groups_;         ///< that are read one by one: 1 if depthwise
  size_t inputs_, units_; ///< channels of these
  Phases rows_, columns_;
  std::optional<Stem> stem_;
  ImageShape padded_;          ///< a group's part of the input
  ImageShape padded_gradient_; ///< and of the output's gradient
};

} // namespace

OperatorPtr make_convolution(const CpuOpSite& site) {
  if (site.precision == Precision::bfloat16)
    return make_bfloat16_convolution(site);
  return std::make_unique<Convolution>(site);
}

} // namespace troupe::kernels

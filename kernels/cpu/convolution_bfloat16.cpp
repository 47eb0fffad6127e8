#include "kernels/base/buffer.hpp"
#include "kernels/cpu/convolution.hpp"
#include "kernels/cpu/onednn.hpp"

#include <array>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

using dnnl::memory;
using Description = memory::desc;

/// Grows to what is asked for; what lay in it is lost.
class Workspace {
public:
  void reserve(size_t bytes) {
    const auto count = (bytes + sizeof(float) - 1) / sizeof(float);
    if (count > buffer_.size())
      buffer_ = Buffer(count);
  }
  void* data() { return buffer_.data(); }

private:
  Buffer buffer_;
};

/// What the passes of a convolution share: where their images, weights and
/// intermediate sums lie in the format that oneDNN asks for.
struct Place {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  Workspace source;
  Workspace weights;
  Workspace destination;
  Workspace scratchpad;
};

/// An argument of a primitive: as it lies in the graph's memory, as the
/// primitive wants it, and where it is kept so if the two differ.
class Argument {
public:
  Argument(int name, Place& place, const Description& plain,
           const Description& wanted, Workspace& at, bool written)
    : name_(name),
      plain_(plain, place.engine, nullptr),
      wanted_(wanted, place.engine, nullptr),
      workspace_(&at),
      written_(written),
      converted_(plain != wanted) {
    if (!converted_)
      return;
    at.reserve(wanted.get_size());
    reorder_ = written ? dnnl::reorder(wanted_, plain_)
                       : dnnl::reorder(plain_, wanted_);
  }

  /// Makes the argument ready for the primitive.
  void take(Place& place, float* values,
            std::unordered_map<int, memory>& arguments) {
    plain_.set_data_handle(values);
    if (converted_)
      wanted_.set_data_handle(workspace_->data());
    if (converted_ && !written_)
      reorder_.execute(place.stream, plain_, wanted_);
    arguments[name_] = converted_ ? wanted_ : plain_;
  }

  /// Puts a result where the graph has it.
  void give(Place& place) {
    if (converted_ && written_)
      reorder_.execute(place.stream, wanted_, plain_);
  }

private:
  int name_;
  memory plain_;
  memory wanted_;
  Workspace* workspace_;
  bool written_;
  bool converted_;
  dnnl::reorder reorder_;
};

/// One primitive for one number of rows.
class Pass {
public:
  template <class Primitive>
  Pass(Place& place, const Primitive& primitive, const Description& scratchpad,
       std::array<Argument, 3> arguments)
    : primitive_(primitive),
      arguments_(std::move(arguments)),
      scratchpad_(scratchpad, place.engine, nullptr) {
    place.scratchpad.reserve(scratchpad.get_size());
  }

  /// In the order source, weights, destination (or their gradients).
  void run(Place& place, const float* source, const float* weights,
           const float* destination) {
    const std::array values = {source, weights, destination};
    for (size_t i = 0; i < values.size(); ++i)
      arguments_[i].take(place, const_cast<float*>(values[i]), map_);
    scratchpad_.set_data_handle(place.scratchpad.data());
    map_[DNNL_ARG_SCRATCHPAD] = scratchpad_;
    primitive_.execute(place.stream, map_);
    for (auto& argument : arguments_)
      argument.give(place);
  }

private:
  dnnl::primitive primitive_;
  std::array<Argument, 3> arguments_;
  memory scratchpad_;
  std::unordered_map<int, memory> map_;
};

/// Makes the passes of a convolution for a number of rows.
///
/// Images stay channels-last: oneDNN has compiled kernels for that, and only
/// the weights are brought into its own order, anew for each pass. Of one
/// channel the format that it prefers wins, reorders included.
class Maker {
public:
  Maker(const CpuOpSite& site, Place& place, uint32_t rows)
    : place_(place), attributes_(site.op.attributes) {
    const auto& in = site.input(0);
    const auto& out = site.output();
    auto extent = [](uint64_t x) { return static_cast<memory::dim>(x); };
    const auto n = extent(rows);
    source_ = {n, extent(in[2]), extent(in[0]), extent(in[1])};
    destination_ = {n, extent(out[2]), extent(out[0]), extent(out[1])};
    const auto groups = extent(attributes_.groups);
    const auto kernel = extent(attributes_.kernel);
    const auto units = extent(out[2]);
    const auto inputs = extent(in[2]) / groups;
    weights_ = {units / groups, inputs, kernel, kernel};
    weight_strides_ = {1, units, kernel * inputs * units, inputs * units};
    if (groups > 1) {
      weights_.insert(weights_.begin(), groups);
      weight_strides_.insert(weight_strides_.begin(), units / groups);
    }
    any_ = in[2] == 1;
    user_scratchpad_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  Pass forward() {
    const auto hint = forward_description(memory::data_type::f32);
    return {place_,
            dnnl::convolution_forward(hint),
            hint.scratchpad_desc(),
            {read(DNNL_ARG_SRC, plain(source_), hint.src_desc(), place_.source),
             read(DNNL_ARG_WEIGHTS, plain_weights(), hint.weights_desc(),
                  place_.weights),
             written(DNNL_ARG_DST, plain(destination_), hint.dst_desc(),
                     place_.destination)}};
  }

  Pass backward_input() {
    using Primitive = dnnl::convolution_backward_data;
    const auto hint = describe_backward_pass<Primitive>(
      place_.engine, user_scratchpad_, forward_description(type_),
      dnnl::algorithm::convolution_direct,
      image(source_, memory::data_type::f32), weights(type_),
      image(destination_, type_), strides(), padding(), padding());
    return {place_,
            Primitive(hint),
            hint.scratchpad_desc(),
            {written(DNNL_ARG_DIFF_SRC, plain(source_), hint.diff_src_desc(),
                     place_.source),
             read(DNNL_ARG_WEIGHTS, plain_weights(), hint.weights_desc(),
                  place_.weights),
             read(DNNL_ARG_DIFF_DST, plain(destination_), hint.diff_dst_desc(),
                  place_.destination)}};
  }

  Pass backward_weights() {
    using Primitive = dnnl::convolution_backward_weights;
    const auto hint = describe_backward_pass<Primitive>(
      place_.engine, user_scratchpad_, forward_description(type_),
      dnnl::algorithm::convolution_direct, image(source_, type_),
      weights(memory::data_type::f32), image(destination_, type_), strides(),
      padding(), padding());
    return {place_,
            Primitive(hint),
            hint.scratchpad_desc(),
            {read(DNNL_ARG_SRC, plain(source_), hint.src_desc(), place_.source),
             written(DNNL_ARG_DIFF_WEIGHTS, plain_weights(),
                     hint.diff_weights_desc(), place_.weights),
             read(DNNL_ARG_DIFF_DST, plain(destination_), hint.diff_dst_desc(),
                  place_.destination)}};
  }

private:
  dnnl::convolution_forward::primitive_desc
  forward_description(memory::data_type result) const {
    return describe_pass<dnnl::convolution_forward>(
      place_.engine, user_scratchpad_, dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, image(source_, type_),
      weights(type_), image(destination_, result), strides(), padding(),
      padding());
  }

  memory::dims strides() const {
    return {attributes_.stride, attributes_.stride};
  }
  memory::dims padding() const {
    return {attributes_.padding, attributes_.padding};
  }
  Description image(const memory::dims& extents, memory::data_type type) const {
    return {extents, type,
            any_ ? memory::format_tag::any : memory::format_tag::nhwc};
  }
  Description weights(memory::data_type type) const {
    return {weights_, type, memory::format_tag::any};
  }
  Description plain(const memory::dims& extents) const {
    return {extents, memory::data_type::f32, memory::format_tag::nhwc};
  }
  Description plain_weights() const {
    return {weights_, memory::data_type::f32, weight_strides_};
  }
  Argument read(int name, const Description& plain, const Description& wanted,
                Workspace& at) const {
    return {name, place_, plain, wanted, at, false};
  }
  Argument written(int name, const Description& plain,
                   const Description& wanted, Workspace& at) const {
    return {name, place_, plain, wanted, at, true};
  }

  Place& place_;
  const OpAttributes& attributes_;
  memory::dims source_, destination_, weights_, weight_strides_;
  bool any_ = false;
  static constexpr auto type_ = memory::data_type::bf16;
  dnnl::primitive_attr user_scratchpad_;
};

class Bfloat16Convolution final : public ConvolutionFrame {
public:
  explicit Bfloat16Convolution(const CpuOpSite& site)
    : ConvolutionFrame(site) {}

private:
  /// Passes by number of rows, made at their first use: an epoch's last
  /// micro-batches and evaluations have other numbers than most.
  using Passes = std::map<uint32_t, Pass>;

  uint64_t scratch() const override { return weights(); }

  void multiply(const OpArgs& args) override {
    cached(forward_, args.rows, &Maker::forward)
      .run(place_, args.inputs[0], args.parameters[0], args.output);
    finish(args, 0, args.rows);
  }

  void give_to_weights(const OpArgs& args) override {
    auto* gradient = args.parameter_gradients[0];
    const bool added = args.accumulate_parameters[0];
    cached(backward_weights_, args.rows, &Maker::backward_weights)
      .run(place_, args.inputs[0], added ? args.scratch : gradient,
           args.output_gradient);
    if (added)
      loops().add(args.scratch, gradient, gradient, weights());
  }

  void give_to_input(const OpArgs& args) override {
    cached(backward_input_, args.rows, &Maker::backward_input)
      .run(place_, args.input_gradients[0], args.parameters[0],
           args.output_gradient);
  }

  Pass& cached(Passes& passes, uint32_t rows, Pass (Maker::*make)()) {
    auto found = passes.find(rows);
    if (found == passes.end()) {
      // The split of a primitive's sums is fixed when it is made.
      prepare_compute_thread();
      Maker maker(site_, place_, rows);
      found = passes.emplace(rows, (maker.*make)()).first;
    }
    return found->second;
  }

  Place place_;
  Passes forward_;
  Passes backward_input_;
  Passes backward_weights_;
};

} // namespace

OperatorPtr make_bfloat16_convolution(const CpuOpSite& site) {
  return std::make_unique<Bfloat16Convolution>(site);
}

} // namespace troupe::kernels

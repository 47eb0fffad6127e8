#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/onednn.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/stem.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
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
/// Images stay channels-last: oneDNN 2.6 has compiled kernels for that on each
/// instruction set, and only the weights are brought into its own order, anew
/// for each pass. µs for 64 images, one core of an EPYC of 118 GFLOP/s,
/// forward / input's gradient / weights' gradient; "blocked" is the format
/// that oneDNN prefers, to which reorders of 70 to 210 µs a pass must be added:
///                      channels last          blocked
///   14x14x16 -> 32     1169 /  956 / 1136      942 /  935 / 1194
///   32x32x16 -> 16     3489 / 3249 / 3318     3894 / 2751 / 3214
///   8x8x64 -> 64       2639 / 2347 / 2479     2202 / 2221 / 2601
///   28x28x1 -> 16       464 /    - /  293      152 /    - /  149
/// Of one channel, as in the last row, the blocked one wins.
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
    type_ = site.precision == Precision::bfloat16 ? memory::data_type::bf16
                                                  : memory::data_type::f32;
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
  memory::data_type type_ = memory::data_type::f32;
  dnnl::primitive_attr user_scratchpad_;
};

class Convolution final : public Operator {
public:
  explicit Convolution(const CpuOpSite& site)
    : site_(site), units_(site.output()[2]) {
    const auto& attributes = site.op.attributes;
    require(attributes.groups > 0 && units_ % attributes.groups == 0
              && site.input(0)[2] % attributes.groups == 0,
            "channels of a convolution not divisible by its groups");
    require(attributes.activation == Activation::none || relu(),
            "build_graph() gives other activations an operator of their own");
    weights_ = site.parameter(0).size();
    if (Stem::takes(site))
      stem_.emplace(site);
    if (!attributes.bias)
      no_bias_ = std::vector<float>(units_);
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.backward_reads_output = relu();
    needs.scratch = {0, std::max<uint64_t>(weights_, units_)};
    if (stem_)
      needs.scratch.fixed = std::max(needs.scratch.fixed, stem_->scratch());
    return needs;
  }

  void forward(const OpArgs& args) override {
    if (stem_) {
      stem_->forward(args);
      return;
    }
    auto& pass = cached(forward_, args.rows, &Maker::forward);
    pass.run(place_, args.inputs[0], args.parameters[0], args.output);
    if (!no_bias_.empty() && !relu())
      return;
    loops().bias_forward(
      pixels(args, args.output),
      no_bias_.empty() ? args.parameters[1] : no_bias_.data(), relu());
  }

  void backward(const OpArgs& args) override {
    auto* delta = args.output_gradient;
    const bool wanted = args.input_gradients[0] != nullptr;
    if (stem_) {
      stem_->backward(args);
      if (wanted && relu())
        loops().bias_backward(pixels(args, delta), args.output, args.scratch);
    } else {
      backward_of_bias(args);
      backward_of_weights(args);
    }
    if (wanted)
      cached(backward_input_, args.rows, &Maker::backward_input)
        .run(place_, args.input_gradients[0], args.parameters[0], delta);
  }

private:
  /// Passes by number of rows, made at their first use: an epoch's last
  /// micro-batches and evaluations have other numbers than most.
  using Passes = std::map<uint32_t, Pass>;

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

  /// And the activation's: delta is that of the sums from here on.
  void backward_of_bias(const OpArgs& args) const {
    const bool bias = no_bias_.empty();
    if (!bias && !relu())
      return;
    const bool added = !bias || args.accumulate_parameters[1];
    auto* sums = added ? args.scratch : args.parameter_gradients[1];
    loops().bias_backward(pixels(args, args.output_gradient),
                          relu() ? args.output : nullptr, sums);
    if (bias && added)
      loops().add(sums, args.parameter_gradients[1],
                  args.parameter_gradients[1], units_);
  }

  void backward_of_weights(const OpArgs& args) {
    auto* gradient = args.parameter_gradients[0];
    const bool added = args.accumulate_parameters[0];
    cached(backward_weights_, args.rows, &Maker::backward_weights)
      .run(place_, args.inputs[0], added ? args.scratch : gradient,
           args.output_gradient);
    if (added)
      loops().add(args.scratch, gradient, gradient, weights_);
  }

  bool relu() const {
    return site_.op.attributes.activation == Activation::relu;
  }
  Rows pixels(const OpArgs& args, float* values) const {
    const auto& shape = site_.output();
    return {values, units_, args.rows * shape[0] * shape[1], units_};
  }

  CpuOpSite site_;
  size_t units_;
  size_t weights_ = 0;
  std::vector<float> no_bias_; ///< zeros where the attribute is off
  std::optional<Stem> stem_;
  Place place_;
  Passes forward_;
  Passes backward_input_;
  Passes backward_weights_;
};

} // namespace

OperatorPtr make_convolution(const CpuOpSite& site) {
  return std::make_unique<Convolution>(site);
}

} // namespace troupe::kernels

// oneDNN's products and convolutions for yardsticks.cpp, of version 2.6 on.

#include "kernels/cpu/onednn.hpp"
#include "tests/peers/yardstick.hpp"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace troupe::yardstick;
using dnnl::memory;
using troupe::kernels::describe_backward_pass;
using troupe::kernels::describe_pass;
using Tag = memory::format_tag;
constexpr auto float32 = memory::data_type::f32;

memory::dim extent(size_t count) {
  return static_cast<memory::dim>(count);
}

struct Place {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// The library's own matrix product.
class Matmul final : public Prepared {
public:
  Matmul(Place& place, const Product& shape)
    : place_(place),
      a_({{extent(shape.m), extent(shape.k)},
          float32,
          shape.a_turned ? Tag::ba : Tag::ab},
         place.engine, nullptr),
      b_({{extent(shape.k), extent(shape.n)},
          float32,
          shape.b_turned ? Tag::ba : Tag::ab},
         place.engine, nullptr),
      c_({{extent(shape.m), extent(shape.n)}, float32, Tag::ab}, place.engine,
         nullptr),
      primitive_(describe_pass<dnnl::matmul>(place.engine, {}, a_.get_desc(),
                                             b_.get_desc(), c_.get_desc())) {}

  void run(float* a, float* b, float* c) override {
    a_.set_data_handle(a);
    b_.set_data_handle(b);
    c_.set_data_handle(c);
    primitive_.execute(place_.stream, {{DNNL_ARG_SRC, a_},
                                       {DNNL_ARG_WEIGHTS, b_},
                                       {DNNL_ARG_DST, c_}});
    place_.stream.wait();
  }

private:
  Place& place_;
  memory a_, b_, c_;
  dnnl::matmul primitive_;
};

/// That of BLAS.
class Sgemm final : public Prepared {
public:
  explicit Sgemm(const Product& shape) : shape_(shape) {}

  void run(float* a, float* b, float* c) override {
    const auto& [m, n, k, a_turned, b_turned] = shape_;
    dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', extent(m), extent(n),
               extent(k), 1, a, extent(a_turned ? m : k), b,
               extent(b_turned ? k : n), 0, c, extent(n));
  }

private:
  Product shape_;
};

/// A convolution between images that lie [height, width, channels] and weights
/// that lie as Troupe has them; what the library wants in another order is put
/// there each time, since each step has other weights.
class Windows final : public Prepared {
public:
  /// any: the library chooses the order of images too.
  Windows(Place& place, const Convolution& shape, bool any)
    : place_(place), shape_(shape), any_(any) {
    const auto forward = describe_pass<dnnl::convolution_forward>(
      place.engine, {}, dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, image(source()), weights(),
      image(result()), strides(), padding(), padding());
    switch (shape.pass) {
      case Pass::forward:
        arguments_ = {take(0, DNNL_ARG_SRC, forward.src_desc()),
                      take(1, DNNL_ARG_WEIGHTS, forward.weights_desc()),
                      give(2, DNNL_ARG_DST, forward.dst_desc())};
        primitive_ = dnnl::convolution_forward(forward);
        break;
      case Pass::input_gradient: {
        using Primitive = dnnl::convolution_backward_data;
        const auto how = describe_backward_pass<Primitive>(
          place.engine, {}, forward, dnnl::algorithm::convolution_direct,
          image(source()), weights(), image(result()), strides(), padding(),
          padding());
        arguments_ = {give(0, DNNL_ARG_DIFF_SRC, how.diff_src_desc()),
                      take(1, DNNL_ARG_WEIGHTS, how.weights_desc()),
                      take(2, DNNL_ARG_DIFF_DST, how.diff_dst_desc())};
        primitive_ = Primitive(how);
        break;
      }
      case Pass::weight_gradient: {
        using Primitive = dnnl::convolution_backward_weights;
        const auto how = describe_backward_pass<Primitive>(
          place.engine, {}, forward, dnnl::algorithm::convolution_direct,
          image(source()), weights(), image(result()), strides(), padding(),
          padding());
        arguments_ = {take(0, DNNL_ARG_SRC, how.src_desc()),
                      give(1, DNNL_ARG_DIFF_WEIGHTS, how.diff_weights_desc()),
                      take(2, DNNL_ARG_DIFF_DST, how.diff_dst_desc())};
        primitive_ = Primitive(how);
        break;
      }
    }
  }

  void run(float* a, float* b, float* c) override {
    float* const values[] = {a, b, c};
    for (auto& argument : arguments_) {
      argument.plain.set_data_handle(values[argument.at]);
      if (argument.moves && !argument.written)
        argument.move.execute(place_.stream, argument.plain, argument.wanted);
      map_[argument.name] = argument.moves ? argument.wanted : argument.plain;
    }
    primitive_.execute(place_.stream, map_);
    for (auto& argument : arguments_)
      if (argument.moves && argument.written)
        argument.move.execute(place_.stream, argument.wanted, argument.plain);
    place_.stream.wait();
  }

private:
  struct Argument {
    int at;
    int name;
    bool written;
    bool moves;
    memory plain, wanted;
    dnnl::reorder move;
  };

  Argument take(int at, int name, const memory::desc& wanted) const {
    return argument(at, name, wanted, false);
  }
  Argument give(int at, int name, const memory::desc& wanted) const {
    return argument(at, name, wanted, true);
  }
  Argument argument(int at, int name, const memory::desc& wanted,
                    bool written) const {
    const auto plain = at == 1 ? plain_weights()
                               : memory::desc{at == 0 ? source() : result(),
                                              float32, Tag::nhwc};
    Argument made = {
      at, name, written, plain != wanted, memory(plain, place_.engine, nullptr),
      {}, {}};
    if (made.moves) {
      made.wanted = memory(wanted, place_.engine); // with memory of its own
      made.move = written ? dnnl::reorder(made.wanted, made.plain)
                          : dnnl::reorder(made.plain, made.wanted);
    }
    return made;
  }

  memory::dims source() const {
    return {extent(shape_.rows), extent(shape_.channels), extent(shape_.height),
            extent(shape_.width)};
  }
  memory::dims result() const {
    return {extent(shape_.rows), extent(shape_.units),
            extent(shape_.out_height), extent(shape_.out_width)};
  }
  memory::dims strides() const {
    return {extent(shape_.stride), extent(shape_.stride)};
  }
  memory::dims padding() const {
    return {extent(shape_.padding), extent(shape_.padding)};
  }
  memory::desc image(const memory::dims& extents) const {
    return {extents, float32, any_ ? Tag::any : Tag::nhwc};
  }
  /// Units, channels and the window; with groups before.
  memory::dims weight_extents() const {
    memory::dims extents;
    if (shape_.groups > 1)
      extents = {extent(shape_.groups)};
    extents.insert(extents.end(),
                   {extent(shape_.units / shape_.groups),
                    extent(shape_.channels / shape_.groups),
                    extent(shape_.kernel), extent(shape_.kernel)});
    return extents;
  }
  memory::desc weights() const { return {weight_extents(), float32, Tag::any}; }
  memory::desc plain_weights() const {
    const auto tap = shape_.channels / shape_.groups * shape_.units;
    memory::dims strides;
    if (shape_.groups > 1)
      strides = {extent(shape_.units / shape_.groups)};
    strides.insert(strides.end(), {1, extent(shape_.units),
                                   extent(shape_.kernel * tap), extent(tap)});
    return {weight_extents(), float32, strides};
  }

  Place& place_;
  Convolution shape_;
  bool any_;
  std::vector<Argument> arguments_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> map_;
};

class OneDnn final : public Library {
public:
  OneDnn() {
    const auto* version = dnnl_version();
    name_ = "oneDNN " + std::to_string(version->major) + "."
            + std::to_string(version->minor) + "."
            + std::to_string(version->patch);
  }
  const char* name() const override { return name_.c_str(); }

  Prepared* product(const Product& shape, int way) override {
    return made([&]() -> Prepared* {
      if (way == 0)
        return new Matmul(place(), shape);
      return new Sgemm(shape);
    });
  }

  Prepared* convolution(const Convolution& shape, int way) override {
    return made([&] { return new Windows(place(), shape, way == 1); });
  }

private:
  /// Null where the library has no such primitive.
  template <class Make>
  static Prepared* made(const Make& make) {
    try {
      return make();
    } catch (const dnnl::error&) {
      return nullptr;
    }
  }

  /// Made when it is asked for: without SYCL's runtime a library that was built
  /// for it has none, and still has the product of BLAS.
  Place& place() {
    if (place_ == nullptr)
      place_ = std::make_unique<Place>();
    return *place_;
  }

  std::string name_;
  std::unique_ptr<Place> place_;
};

} // namespace

extern "C" Library* troupe_yardstick(const char* isa) {
  const auto most = std::string{isa} == "avx2" ? dnnl::cpu_isa::avx2
                                               : dnnl::cpu_isa::avx512_core;
  dnnl::set_max_cpu_isa(most);
  return dnnl::get_effective_cpu_isa() == most ? new OneDnn : nullptr;
}

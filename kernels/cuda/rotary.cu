#include "kernels/cpu/rotary_loops.hpp"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/graph/rotary_turns.hpp"

namespace troupe::kernels {

namespace {

using namespace cuda;

struct TurnArgs {
  const void* x; ///< [places, stride]
  void* y;       ///< may be x
  const float* turns;
  uint64_t length; ///< places of a sample
  uint32_t half;   ///< pairs of a head
  uint32_t turned; ///< heads; those after them only move
  uint32_t heads;  ///< that are written
  uint32_t stride; ///< elements of a place
  float sign;      ///< of the sines: -1 turns back, as gradients do
  bool accumulate;
};

/// A thread takes N pairs of a head.
template <class X, class Y, bool Interleaved, uint32_t N>
struct Turn {
  TurnArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto packs = args.half / N;
    const auto place = i / (args.heads * packs);
    const auto pack = static_cast<uint32_t>(i % (args.heads * packs));
    const auto head = pack / packs;
    const auto c = pack % packs * N;
    const auto begin = place * args.stride + head * 2 * args.half;
    const auto low = begin + (Interleaved ? 2 * c : c);
    const auto high = low + (Interleaved ? N : args.half);
    const auto* x = static_cast<const X*>(args.x);
    Values<N> v[2] = {load<N>(x + low), load<N>(x + high)};
    if (head < args.turned) {
      const auto* turn = args.turns + place % args.length * 2 * args.half + c;
      const auto cosine = load<N>(turn);
      const auto sine = load<N>(turn + args.half);
#pragma unroll
      for (uint32_t k = 0; k < N; ++k) {
        constexpr auto apart = Interleaved ? 1 : N;
        const auto at = Interleaved ? 2 * k : k;
        auto& first = v[at / N][at % N];
        auto& second = v[(at + apart) / N][(at + apart) % N];
        const auto a = first;
        const auto b = second;
        const auto s = sine[k] * args.sign;
        first = a * cosine[k] - b * s;
        second = b * cosine[k] + a * s;
      }
    }
    auto* y = static_cast<Y*>(args.y);
    give(v[0], y + low, args.accumulate);
    give(v[1], y + high, args.accumulate);
  }
};

class Rotary final : public CudaOperator {
public:
  explicit Rotary(const CudaOpSite& site)
    : CudaOperator(site),
      shape_(rotary_shape(site.op().attributes, site.output().at(1))),
      length_(site.output().at(0)),
      half_input_(site.half_input(0)),
      half_output_(site.half_output()),
      turns_(CudaArray<float>::Where::device, length_ * shape_.head,
             context_.place(name_)) {
    const auto turns = rotary_turns(site.op().attributes, shape_.head, length_);
    check(cudaMemcpyAsync(turns_.data(), turns.data(),
                          turns.size() * sizeof(float), cudaMemcpyHostToDevice,
                          stream()),
          context_.place(name_));
    context_.synchronize(name_);
  }

  Needs needs() const override {
    Needs needs;
    needs.in_place = half_input_ == half_output_;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    turn(args.rows, {args.inputs[0], half_input_}, {args.output, half_output_},
         1, false);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      turn(args.rows, {args.output_gradient, half_output_},
           {args.input_gradients[0], half_input_}, -1,
           args.accumulate_inputs[0] != 0);
  }

private:
  template <class T>
  struct Place {
    T* values;
    bool half;
  };

  void turn(uint32_t rows, Place<const float> x, Place<float> y, float sign,
            bool accumulate) {
    TurnArgs turn{};
    turn.x = x.values;
    turn.y = y.values;
    turn.turns = turns_.data();
    turn.length = length_;
    turn.half = static_cast<uint32_t>(shape_.head / 2);
    turn.turned = static_cast<uint32_t>(shape_.turned);
    turn.heads = x.values == y.values
                   ? turn.turned
                   : static_cast<uint32_t>(shape_.stride / shape_.head);
    turn.stride = static_cast<uint32_t>(shape_.stride);
    turn.sign = sign;
    turn.accumulate = accumulate;
    const auto pairs = rows * length_ * turn.heads * turn.half;
    with_types(x.half, y.half, [&]<class X, class Y>() {
      with_pack(turn.half, [&]<uint32_t N>() {
        if (shape_.interleaved)
          launch_each(pairs / N, Turn<X, Y, true, N>{turn}, stream());
        else
          launch_each(pairs / N, Turn<X, Y, false, N>{turn}, stream());
      });
    });
    launched();
  }

  RotaryShape shape_;
  uint64_t length_; ///< places of a sample
  bool half_input_;
  bool half_output_;
  CudaArray<float> turns_; ///< [length, 2, head / 2]
};

} // namespace

OperatorPtr make_cuda_rotary(const CudaOpSite& site) {
  return std::make_unique<Rotary>(site);
}

} // namespace troupe::kernels

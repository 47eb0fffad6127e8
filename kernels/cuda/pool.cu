#include "kernels/base/error.hpp"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"

namespace troupe::kernels {

namespace {

using namespace cuda;

struct Windows {
  uint32_t height, width, channels;
  uint32_t high, wide; ///< of the output
  uint32_t kernel_height, kernel_width;
  uint32_t stride, padding;

  __device__ uint64_t image() const {
    return uint64_t{height} * width * channels;
  }
};

/// Where an output lies, and its window: rows [top, bottom) and columns [left,
/// right) of the image, which begin `above` and `before` further out.
struct Window {
  uint32_t c;
  uint32_t top, bottom, left, right;
  uint32_t above, before;
  uint64_t row;

  __device__ Window(const Windows& w, uint64_t i) {
    c = static_cast<uint32_t>(i % w.channels);
    i /= w.channels;
    const auto x = static_cast<uint32_t>(i % w.wide) * w.stride;
    i /= w.wide;
    const auto y = static_cast<uint32_t>(i % w.high) * w.stride;
    row = i / w.high;
    above = y < w.padding ? w.padding - y : 0;
    before = x < w.padding ? w.padding - x : 0;
    top = y + above - w.padding;
    left = x + before - w.padding;
    bottom = min(y + w.kernel_height - w.padding, w.height);
    right = min(x + w.kernel_width - w.padding, w.width);
  }
};

/// Of N channels beside each other.
template <uint32_t N>
struct MaxForward {
  Windows w;
  const float* x;
  float* y;
  int32_t* chosen;

  __device__ void operator()(uint64_t i) const {
    const Window k(w, i * N);
    const auto* image = x + k.row * w.image() + k.c;
    auto best =
      load<N>(image + (uint64_t{k.top} * w.width + k.left) * w.channels);
    Words<int32_t, N> where;
#pragma unroll
    for (uint32_t n = 0; n < N; ++n)
      where.at[n] = static_cast<int32_t>(k.above * w.kernel_width + k.before);
    for (auto a = k.top; a < k.bottom; ++a)
      for (auto b = k.left; b < k.right; ++b) {
        const auto v =
          load<N>(image + (uint64_t{a} * w.width + b) * w.channels);
        const auto at = static_cast<int32_t>(
          (a - k.top + k.above) * w.kernel_width + (b - k.left + k.before));
#pragma unroll
        for (uint32_t n = 0; n < N; ++n)
          // A NaN is taken, and stays.
          if (best[n] == best[n] && !(v[n] <= best[n])) {
            best[n] = v[n];
            where.at[n] = at;
          }
      }
    store(best, y + i * N);
    *reinterpret_cast<Words<int32_t, N>*>(chosen + i * N) = where;
  }
};

struct AverageForward {
  Windows w;
  const float* x;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const Window k(w, i);
    const auto* image = x + k.row * w.image() + k.c;
    float sum = 0;
    for (auto a = k.top; a < k.bottom; ++a)
      for (auto b = k.left; b < k.right; ++b)
        sum += image[(uint64_t{a} * w.width + b) * w.channels];
    y[i] = sum / static_cast<float>((k.bottom - k.top) * (k.right - k.left));
  }
};

/// A thread gathers what N channels of a place of the image get, window by
/// window.
template <uint32_t N>
struct PoolBackward {
  Windows w;
  const int32_t* chosen; ///< null: of an average
  const float* dy;
  float* dx;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto packs = w.channels / N;
    const auto c = static_cast<uint32_t>(i % packs) * N;
    const auto x = static_cast<uint32_t>(i / packs % w.width) + w.padding;
    const auto y = static_cast<uint32_t>(i / packs / w.width % w.height)
                   + w.padding;
    const auto row = i / packs / w.width / w.height;
    const auto first_a =
      y < w.kernel_height ? 0 : (y - w.kernel_height) / w.stride + 1;
    const auto first_b =
      x < w.kernel_width ? 0 : (x - w.kernel_width) / w.stride + 1;
    Values<N> sum{};
    for (auto a = first_a; a < w.high && a * w.stride <= y; ++a)
      for (auto b = first_b; b < w.wide && b * w.stride <= x; ++b) {
        const auto at = ((row * w.high + a) * w.wide + b) * w.channels + c;
        const auto d = load<N>(dy + at);
        if (chosen == nullptr) {
          const Window k(w, at);
          const auto held =
            static_cast<float>((k.bottom - k.top) * (k.right - k.left));
#pragma unroll
          for (uint32_t n = 0; n < N; ++n)
            sum[n] += d[n] / held;
        } else {
          const auto where =
            *reinterpret_cast<const Words<int32_t, N>*>(chosen + at);
          const auto here = static_cast<int32_t>(
            (y - a * w.stride) * w.kernel_width + (x - b * w.stride));
#pragma unroll
          for (uint32_t n = 0; n < N; ++n)
            if (where.at[n] == here)
              sum[n] += d[n];
        }
      }
    give(sum, dx + i * N, accumulate);
  }
};

class Pool final : public CudaOperator {
public:
  explicit Pool(const CudaOpSite& site)
    : CudaOperator(site),
      largest_(site.op().kind == OpKind::max_pool),
      inputs_(elements(site.input(0))),
      outputs_(elements(site.output())) {
    const auto& in = site.input(0);
    const auto& out = site.output();
    const auto& attributes = site.op().attributes;
    const bool whole = attributes.kernel == 0;
    auto small = [](uint64_t x) { return static_cast<uint32_t>(x); };
    w_ = {small(in[0]),
          small(in[1]),
          small(in[2]),
          small(out[0]),
          small(out[1]),
          whole ? small(in[0]) : attributes.kernel,
          whole ? small(in[1]) : attributes.kernel,
          whole ? 1 : attributes.stride,
          whole ? 0 : attributes.padding};
    if (!windows_hold_something())
      throw InputError("operator " + name_
                       + ": a window lies in the padding alone; use a padding "
                         "below the kernel, and a kernel that the image holds");
  }

  Needs needs() const override {
    Needs needs;
    if (largest_)
      needs.saved = {outputs_, 0};
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto count = args.rows * outputs_;
    if (largest_)
      with_pack(w_.channels, [&]<uint32_t N>() {
        launch_each(count / N,
                    MaxForward<N>{w_, args.inputs[0], args.output,
                                  chosen(args)},
                    stream());
      });
    else
      launch_each(count, AverageForward{w_, args.inputs[0], args.output},
                  stream());
    launched();
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    with_pack(w_.channels, [&]<uint32_t N>() {
      launch_each(args.rows * inputs_ / N,
                  PoolBackward<N>{w_, largest_ ? chosen(args) : nullptr,
                                  args.output_gradient, args.input_gradients[0],
                                  args.accumulate_inputs[0] != 0},
                  stream());
    });
    launched();
  }

private:
  static int32_t* chosen(const OpArgs& args) {
    return reinterpret_cast<int32_t*>(args.saved);
  }

  bool windows_hold_something() const {
    const auto& w = w_;
    return w.high > 0 && w.wide > 0 && w.padding < w.kernel_height
           && w.padding < w.kernel_width
           && (w.high - 1) * w.stride < w.height + w.padding
           && (w.wide - 1) * w.stride < w.width + w.padding;
  }

  bool largest_;
  uint64_t inputs_;
  uint64_t outputs_;
  Windows w_{};
};

} // namespace

OperatorPtr make_cuda_pool(const CudaOpSite& site) {
  return std::make_unique<Pool>(site);
}

} // namespace troupe::kernels

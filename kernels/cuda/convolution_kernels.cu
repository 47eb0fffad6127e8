#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/convolution.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/tensor_core.cuh"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

struct Forward {
  DirectConvolution s;
  const float* x;
  const float* w;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const auto u = static_cast<uint32_t>(i % s.units);
    const auto b = static_cast<uint32_t>(i / s.units % s.wide) * s.stride;
    const auto a = static_cast<uint32_t>(i / s.units / s.wide % s.high)
                   * s.stride;
    const auto row = i / s.units / s.wide / s.high;
    const auto inner = s.channels / s.groups;
    const auto first = u / (s.units / s.groups) * inner;
    float sum = 0;
    for (uint32_t p = 0; p < s.kernel; ++p)
      for (uint32_t q = 0; q < s.kernel; ++q) {
        const auto h = a + p;
        const auto v = b + q;
        if (h < s.padding || h >= s.height + s.padding || v < s.padding
            || v >= s.width + s.padding)
          continue;
        const auto* from =
          x
          + ((row * s.height + h - s.padding) * s.width + v - s.padding)
              * s.channels
          + first;
        const auto* weight = w + uint64_t{p * s.kernel + q} * inner * s.units
                             + u;
        for (uint32_t c = 0; c < inner; ++c)
          sum += from[c] * weight[uint64_t{c} * s.units];
      }
    y[i] = sum;
  }
};

struct InputGradient {
  DirectConvolution s;
  const float* dy;
  const float* w;
  float* dx;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % s.channels);
    const auto v = static_cast<uint32_t>(i / s.channels % s.width) + s.padding;
    const auto h = static_cast<uint32_t>(i / s.channels / s.width % s.height)
                   + s.padding;
    const auto row = i / s.channels / s.width / s.height;
    const auto inner = s.channels / s.groups;
    const auto units = s.units / s.groups;
    const auto first = c / inner * units;
    float sum = 0;
    for (uint32_t p = 0; p < s.kernel && p <= h; ++p)
      for (uint32_t q = 0; q < s.kernel && q <= v; ++q) {
        const auto a = (h - p) / s.stride;
        const auto b = (v - q) / s.stride;
        if ((h - p) % s.stride != 0 || (v - q) % s.stride != 0 || a >= s.high
            || b >= s.wide)
          continue;
        const auto* from = dy + ((row * s.high + a) * s.wide + b) * s.units
                           + first;
        const auto* weight =
          w + (uint64_t{p * s.kernel + q} * inner + c % inner) * s.units
          + first;
        for (uint32_t u = 0; u < units; ++u)
          sum += from[u] * weight[u];
      }
    dx[i] = sum;
  }
};

// A block takes one weight and adds up over all rows and places.
__global__ void __launch_bounds__(flat_threads)
  weight_gradient_kernel(const __grid_constant__ DirectConvolution s,
                         const float* x, const float* dy, float* dw,
                         bool accumulate) {
  const uint64_t i = blockIdx.x;
  const auto inner = s.channels / s.groups;
  const auto u = static_cast<uint32_t>(i % s.units);
  const auto c = static_cast<uint32_t>(i / s.units % inner)
                 + u / (s.units / s.groups) * inner;
  const auto q = static_cast<uint32_t>(i / s.units / inner % s.kernel);
  const auto p = static_cast<uint32_t>(i / s.units / inner / s.kernel);
  const auto places = uint64_t{s.rows} * s.high * s.wide;
  float sum = 0;
  for (uint64_t at = threadIdx.x; at < places; at += blockDim.x) {
    const auto v = static_cast<uint32_t>(at % s.wide) * s.stride + q;
    const auto h = static_cast<uint32_t>(at / s.wide % s.high) * s.stride + p;
    const auto row = at / s.wide / s.high;
    if (h < s.padding || h >= s.height + s.padding || v < s.padding
        || v >= s.width + s.padding)
      continue;
    sum += dy[at * s.units + u]
           * x[((row * s.height + h - s.padding) * s.width + v - s.padding)
                 * s.channels
               + c];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    dw[i] = accumulate ? dw[i] + sum : sum;
}

// -- the weights' gradient as a product ---------------------------------------

/// Elements that one access moves, of vectors of so many.
uint32_t accessed(uint32_t beside) {
  return beside % 4 == 0 ? 4 : 1;
}

/// dw [inner, units] = the sum over places of window [inner] x dy [units]. A
/// block takes a tile of inner x units of a chunk of places, a step of places
/// after the other; a thread 8 x 8 of it, of every slices-th place.
struct WindowProduct {
  static constexpr uint32_t max_inner = 144;
  static constexpr uint32_t max_units = 64;
  static constexpr uint32_t max_threads = 256;
  static constexpr uint32_t max_step = 256;
  static constexpr uint32_t stage_floats = 5120;
  static constexpr uint32_t wanted_blocks = 132 * 2;

  uint32_t inner;
  uint32_t inner_tile, units_tile; ///< multiples of 8
  uint32_t inner_tiles, units_tiles;
  uint32_t slices;
  uint32_t step;
  uint32_t x_beside, y_beside;     ///< places that all threads copy at once
  uint32_t columns, lines, images; ///< that a step moves on by
  uint32_t chunks;
  uint64_t places;
  uint64_t chunk; ///< places

  explicit WindowProduct(const DirectConvolution& s)
    : inner(s.kernel * s.kernel * s.channels),
      inner_tile(tile(inner, max_inner)),
      units_tile(tile(s.units, max_units)),
      inner_tiles(static_cast<uint32_t>(over(inner, inner_tile))),
      units_tiles(static_cast<uint32_t>(over(s.units, units_tile))),
      slices(max_threads / lanes()),
      step(std::min(max_step, stage_floats / (inner_tile + units_tile) / slices
                                * slices)),
      x_beside(threads() / (inner_tile / accessed(s.channels))),
      y_beside(threads() / (units_tile / accessed(s.units))),
      columns(step % s.wide),
      lines(step / s.wide % s.high),
      images(step / s.wide / s.high),
      places(uint64_t{s.rows} * s.high * s.wide) {
    const auto wanted = over(wanted_blocks, inner_tiles * units_tiles);
    chunk = over(over(places, wanted), step) * step;
    chunks = static_cast<uint32_t>(over(places, chunk));
  }

  /// What splits the extent evenly.
  static uint32_t tile(uint32_t extent, uint32_t most) {
    return static_cast<uint32_t>(over(over(extent, over(extent, most)), 8) * 8);
  }
  __host__ __device__ uint32_t lanes() const {
    return inner_tile / 8 * (units_tile / 8);
  }
  uint32_t threads() const { return slices * lanes(); }
};

/// The window of a place: where its image begins, and its first line and
/// column.
struct alignas(16) PlaceWindow {
  uint64_t image;
  int32_t top, left;
};

/// Adds up the sums of a block's slices of so many threads into the first
/// one's: the upper half is added to the lower until one is left. shared: 64
/// floats for each thread of half a block.
__device__ inline void add_slices(float (&sum)[8][8], float* shared,
                                  uint32_t slices, uint32_t lanes) {
  const auto thread = threadIdx.x;
  const auto slice = thread / lanes;
  while (slices > 1) {
    const auto lower = (slices + 1) / 2;
    const auto upper = (slices - lower) * lanes; // threads
    __syncthreads();
    if (slice >= lower && slice < slices)
#pragma unroll
      for (uint32_t i = 0; i < 64; ++i)
        shared[i * upper + thread - lower * lanes] = sum[i / 8][i % 8];
    __syncthreads();
    if (thread < upper)
#pragma unroll
      for (uint32_t i = 0; i < 64; ++i)
        sum[i / 8][i % 8] += shared[i * upper + thread];
    slices = lower;
  }
}

// X and Y: elements of x, of dy that one access moves.
template <uint32_t X, uint32_t Y>
__global__ void __launch_bounds__(WindowProduct::max_threads, 2)
  window_product_kernel(const __grid_constant__ DirectConvolution s,
                        const __grid_constant__ WindowProduct p, const float* x,
                        const float* dy, float* sums) {
  extern __shared__ __align__(16) float stages[];
  __shared__ PlaceWindow windows[2][WindowProduct::max_step];
  const auto thread = threadIdx.x;
  const auto first_inner = blockIdx.x % p.inner_tiles * p.inner_tile;
  const auto first_unit = blockIdx.x / p.inner_tiles * p.units_tile;
  const auto begin = blockIdx.y * p.chunk;
  const auto count = static_cast<uint32_t>(
    p.places - begin < p.chunk ? p.places - begin : p.chunk);
  const auto steps = static_cast<uint32_t>(over(count, p.step));

  // A thread that works out windows moves on by a step of places each time.
  auto column = static_cast<uint32_t>((begin + thread) % s.wide);
  auto line = static_cast<uint32_t>((begin + thread) / s.wide % s.high);
  auto row = (begin + thread) / s.wide / s.high;
  auto next_windows = [&](PlaceWindow* to) {
    if (thread >= p.step)
      return;
    to[thread] = {row * s.height * s.width * s.channels,
                  static_cast<int32_t>(line * s.stride - s.padding),
                  static_cast<int32_t>(column * s.stride - s.padding)};
    column += p.columns;
    line += p.lines;
    row += p.images;
    if (column >= s.wide) {
      column -= s.wide;
      ++line;
    }
    if (line >= s.high) {
      line -= s.high;
      ++row;
    }
  };

  // A thread copies the same elements of windows, and the same units, of some
  // places: it has no divisions to do.
  const auto x_packs = p.inner_tile / X; // no more than threads
  const auto x_at = thread % x_packs * X;
  const auto k = first_inner + x_at;
  const auto c = k % s.channels;
  const auto right = static_cast<int32_t>(k / s.channels % s.kernel);
  const auto down = static_cast<int32_t>(k / s.channels / s.kernel);
  const auto y_packs = p.units_tile / Y;
  const auto y_at = thread % y_packs * Y;
  const auto u = first_unit + y_at;
  auto begin_copies = [&](uint32_t n, const PlaceWindow* from, float* xs) {
    auto* ys = xs + p.step * p.inner_tile;
    const auto first = n * p.step;
    const auto held = count - first; // places from the step's first on
    if (thread < p.x_beside * x_packs)
      for (auto q = thread / x_packs; q < p.step; q += p.x_beside) {
        const auto window = from[q];
        const auto h = window.top + down;
        const auto v = window.left + right;
        const bool there = q < held && k < p.inner
                           && static_cast<uint32_t>(h) < s.height
                           && static_cast<uint32_t>(v) < s.width;
        const auto at =
          window.image
          + (static_cast<uint32_t>(h) * s.width + static_cast<uint32_t>(v))
              * s.channels
          + c;
        copy_async<X>(xs + q * p.inner_tile + x_at, there ? x + at : x, there);
      }
    if (thread < p.y_beside * y_packs)
      for (auto q = thread / y_packs; q < p.step; q += p.y_beside) {
        const bool there = q < held && u < s.units;
        const auto at = (begin + first + q) * s.units + u;
        copy_async<Y>(ys + q * p.units_tile + y_at, there ? dy + at : dy,
                      there);
      }
  };

  // Four elements side by side and four half a tile on, so that the lanes'
  // accesses lie side by side.
  const auto slice = thread / p.lanes();
  const auto lane = thread % p.lanes();
  const auto sum_x = lane / (p.units_tile / 8) * 4;
  const auto sum_y = lane % (p.units_tile / 8) * 4;
  float sum[8][8] = {};
  const auto stage = p.step * (p.inner_tile + p.units_tile);
  next_windows(windows[0]);
  __syncthreads();
  begin_copies(0, windows[0], stages);
  next_windows(windows[1]);
  for (uint32_t n = 0; n < steps; ++n) {
    wait_for_copies();
    __syncthreads();
    if (n + 1 < steps)
      begin_copies(n + 1, windows[(n + 1) % 2], stages + (n + 1) % 2 * stage);
    next_windows(windows[n % 2]); // of step n + 2
    const auto* xs = stages + n % 2 * stage + slice * p.inner_tile + sum_x;
    const auto* ys = stages + n % 2 * stage + p.step * p.inner_tile
                     + slice * p.units_tile + sum_y;
    for (auto q = slice; q < p.step; q += p.slices) {
      const Values<4> x_of[2] = {load<4>(xs), load<4>(xs + p.inner_tile / 2)};
      const Values<4> y_of[2] = {load<4>(ys), load<4>(ys + p.units_tile / 2)};
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
        for (uint32_t j = 0; j < 8; ++j)
          sum[i][j] = fmaf(x_of[i / 4][i % 4], y_of[j / 4][j % 4], sum[i][j]);
      xs += p.slices * p.inner_tile;
      ys += p.slices * p.units_tile;
    }
  }

  add_slices(sum, stages, p.slices, p.lanes());
  if (slice > 0)
    return;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const auto to_inner = first_inner + sum_x + i / 4 * (p.inner_tile / 2)
                          + i % 4;
#pragma unroll
    for (uint32_t j = 0; j < 8; j += Y) {
      const auto to_unit = first_unit + sum_y + j / 4 * (p.units_tile / 2)
                           + j % 4;
      if (to_inner >= p.inner || to_unit >= s.units)
        continue;
      Values<Y> values;
#pragma unroll
      for (uint32_t m = 0; m < Y; ++m)
        values[m] = sum[i][j + m];
      store(values, sums + (uint64_t{blockIdx.y} * p.inner + to_inner) * s.units
                      + to_unit);
    }
  }
}

// -- windows times weights ----------------------------------------------------

/// y [places, units] = windows [places, inner] x w [inner, units]. A block
/// takes a tile of places x units, a step of inner after the other; a thread 8
/// x 8 of it, of every slices-th four of inner. Nothing depends on the rows, so
/// that fewer rows give the same bits.
struct PlaceProduct {
  static constexpr uint32_t max_threads = 256;
  static constexpr uint32_t max_places = 256; ///< of a tile
  static constexpr uint32_t max_units = 64;

  uint32_t inner;
  uint32_t slices;
  uint32_t units_tile, places_tile; ///< multiples of 8
  uint32_t step;
  uint32_t x_beside, y_beside;   ///< rows that all threads copy at once
  uint32_t columns, right, down; ///< of a window that a step moves on by

  explicit PlaceProduct(const DirectConvolution& s)
    : inner(s.kernel * s.kernel * s.channels),
      slices(inner < 144   ? 2
             : inner < 288 ? 4
                           : 8),
      units_tile(WindowProduct::tile(s.units, max_units)),
      places_tile(
        std::min(slices == 8 ? max_places / 2 : max_places,
                 max_threads / slices * 8 / (units_tile / 8) / 8 * 8)),
      step(4 * std::max(slices, 4u)),
      x_beside(threads() / (step / accessed(s.channels))),
      y_beside(threads() / (units_tile / accessed(s.units))),
      columns(step % s.channels),
      right(step / s.channels % s.kernel),
      down(step / s.channels / s.kernel) {}

  __host__ __device__ uint32_t lanes() const {
    return places_tile / 8 * (units_tile / 8);
  }
  uint32_t threads() const { return slices * lanes(); }
  /// Between places in shared memory: lanes read 16 bytes of eight places at
  /// once.
  __host__ __device__ uint32_t pitch() const { return step + 4; }
  __host__ __device__ uint32_t stage() const {
    return places_tile * pitch() + step * units_tile;
  }
};

// X and Y: elements of x, of w and y that one access moves.
template <uint32_t X, uint32_t Y>
__global__ void __launch_bounds__(PlaceProduct::max_threads, 2)
  place_product_kernel(const __grid_constant__ DirectConvolution s,
                       const __grid_constant__ PlaceProduct p, const float* x,
                       const float* w, const float* bias, bool relu, float* y) {
  extern __shared__ __align__(16) float stages[];
  __shared__ PlaceWindow windows[PlaceProduct::max_places];
  const auto thread = threadIdx.x;
  const auto first_place = uint64_t{blockIdx.x} * p.places_tile;
  const auto first_unit = blockIdx.y * p.units_tile;
  const auto places = uint64_t{s.rows} * s.high * s.wide;
  const auto held = static_cast<uint32_t>(places - first_place < p.places_tile
                                            ? places - first_place
                                            : p.places_tile);
  for (auto q = thread; q < p.places_tile; q += blockDim.x) {
    const auto place = first_place + q;
    const auto column = static_cast<uint32_t>(place % s.wide);
    const auto line = static_cast<uint32_t>(place / s.wide % s.high);
    windows[q] = {place / s.wide / s.high * s.height * s.width * s.channels,
                  q < held ? static_cast<int32_t>(line * s.stride - s.padding)
                           : INT32_MIN,
                  static_cast<int32_t>(column * s.stride - s.padding)};
  }
  __syncthreads();

  // A thread copies the same of each step, of some places; its element of the
  // windows moves on.
  const auto x_packs = p.step / X;
  const auto x_at = thread % x_packs * X;
  auto c = x_at % s.channels;
  auto right = x_at / s.channels % s.kernel;
  auto down = x_at / s.channels / s.kernel;
  const auto y_packs = p.units_tile / Y;
  const auto y_at = thread % y_packs * Y;
  const auto u = first_unit + y_at;
  auto begin_copies = [&](uint32_t n, float* xs) {
    if (thread < p.x_beside * x_packs)
      for (auto q = thread / x_packs; q < p.places_tile; q += p.x_beside) {
        const auto window = windows[q];
        const auto h = static_cast<uint32_t>(window.top) + down;
        const auto v = static_cast<uint32_t>(window.left) + right;
        const bool there = h < s.height && v < s.width && down < s.kernel;
        const auto at = window.image + (h * s.width + v) * s.channels + c;
        copy_async<X>(xs + q * p.pitch() + x_at, there ? x + at : x, there);
      }
    c += p.columns;
    right += p.right;
    down += p.down;
    if (c >= s.channels) {
      c -= s.channels;
      ++right;
    }
    if (right >= s.kernel) {
      right -= s.kernel;
      ++down;
    }
    auto* ws = xs + p.places_tile * p.pitch();
    if (thread < p.y_beside * y_packs)
      for (auto q = thread / y_packs; q < p.step; q += p.y_beside) {
        const auto from = n * p.step + q;
        const bool there = from < p.inner && u < s.units;
        copy_async<Y>(ws + q * p.units_tile + y_at,
                      there ? w + uint64_t{from} * s.units + u : w, there);
      }
  };

  // Lanes beside each other take places beside each other, and fours of units.
  const auto slice = thread / p.lanes();
  const auto lane = thread % p.lanes();
  const auto apart = p.places_tile / 8;
  const auto sum_x = lane / (p.units_tile / 8);
  const auto sum_y = lane % (p.units_tile / 8) * 4;
  float sum[8][8] = {};
  const auto steps = static_cast<uint32_t>(over(p.inner, p.step));
  begin_copies(0, stages);
  for (uint32_t n = 0; n < steps; ++n) {
    wait_for_copies();
    __syncthreads();
    if (n + 1 < steps)
      begin_copies(n + 1, stages + (n + 1) % 2 * p.stage());
    const auto* xs = stages + n % 2 * p.stage() + sum_x * p.pitch();
    const auto* ws = stages + n % 2 * p.stage() + p.places_tile * p.pitch()
                     + sum_y;
    for (auto q = slice * 4; q < p.step; q += p.slices * 4) {
      Values<4> x_of[8];
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i)
        x_of[i] = load<4>(xs + i * apart * p.pitch() + q);
#pragma unroll
      for (uint32_t m = 0; m < 4; ++m) {
        const auto* at = ws + (q + m) * p.units_tile;
        const Values<4> w_of[2] = {load<4>(at), load<4>(at + p.units_tile / 2)};
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
          for (uint32_t j = 0; j < 8; ++j)
            sum[i][j] = fmaf(x_of[i][m], w_of[j / 4][j % 4], sum[i][j]);
      }
    }
  }
  add_slices(sum, stages, p.slices, p.lanes());
  if (slice > 0)
    return;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; j += Y) {
      const auto q = sum_x + i * apart;
      const auto to_unit = first_unit + sum_y + j / 4 * (p.units_tile / 2)
                           + j % 4;
      if (q >= held || to_unit >= s.units)
        continue;
      Values<Y> values;
#pragma unroll
      for (uint32_t m = 0; m < Y; ++m) {
        const auto z = bias == nullptr ? sum[i][j + m]
                                       : sum[i][j + m] + bias[to_unit + m];
        values[m] = relu ? activate(Activation::relu, z) : z;
      }
      store(values, y + (first_place + q) * s.units + to_unit);
    }
}

/// The weights with which the gradient of x is a convolution of dy.
struct TurnWeights {
  const float* w; ///< [inner places, channels, units]
  float* to;      ///< [the same from the last to the first, units, channels]
  uint32_t places, channels, units;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % channels);
    const auto u = static_cast<uint32_t>(i / channels % units);
    const auto place = places - 1 - static_cast<uint32_t>(i / channels / units);
    to[i] = w[(uint64_t{place} * channels + c) * units + u];
  }
};

/// The convolution of dy, of stride 1, that gives the gradient of x.
DirectConvolution turned(const DirectConvolution& s) {
  return {s.rows,  s.high,     s.wide,   s.units, s.height,
          s.width, s.channels, s.kernel, 1,       s.kernel - 1 - s.padding,
          s.groups};
}

/// Calls f<X, Y>() with the elements that one access moves, of vectors of so
/// many.
template <class F>
void with_accessed(uint32_t x, uint32_t y, const F& f) {
  if (accessed(x) == 4)
    accessed(y) == 4 ? f.template operator()<4, 4>()
                     : f.template operator()<4, 1>();
  else
    accessed(y) == 4 ? f.template operator()<1, 4>()
                     : f.template operator()<1, 1>();
}

template <class T>
struct ToDnn {
  const float* w;
  T* to;
  uint64_t inner;
  uint32_t units;

  __device__ void operator()(uint64_t i) const {
    to[i] = rounded<T>(w[i % inner * units + i / inner]);
  }
};

template <class T>
struct FromDnn {
  const T* from;
  float* w;
  uint64_t inner;
  uint32_t units;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto x = value_of(from[i % units * inner + i / units]);
    w[i] = accumulate ? w[i] + x : x;
  }
};

struct Widen {
  const bfloat16* in;
  float* out;

  __device__ void operator()(uint64_t i) const { out[i] = value_of(in[i]); }
};

} // namespace

void direct_forward(const DirectConvolution& shape, const float* x,
                    const float* w, float* y, cudaStream_t stream) {
  launch_each(uint64_t{shape.rows} * shape.high * shape.wide * shape.units,
              Forward{shape, x, w, y}, stream);
}

void direct_input_gradient(const DirectConvolution& shape, const float* dy,
                           const float* w, float* dx, cudaStream_t stream) {
  launch_each(uint64_t{shape.rows} * shape.height * shape.width
                * shape.channels,
              InputGradient{shape, dy, w, dx}, stream);
}

void direct_weight_gradient(const DirectConvolution& shape, const float* x,
                            const float* dy, float* dw, bool accumulate,
                            cudaStream_t stream) {
  const auto weights = uint64_t{shape.kernel} * shape.kernel
                       * (shape.channels / shape.groups) * shape.units;
  weight_gradient_kernel<<<static_cast<uint32_t>(weights), flat_threads, 0,
                           stream>>>(shape, x, dy, dw, accumulate);
}

bool has_forward(const DirectConvolution& shape) {
  return shape.groups == 1 && shape.channels <= 64 && shape.units <= 64;
}

void forward(const DirectConvolution& shape, const float* x, const float* w,
             const float* bias, bool relu, float* y, cudaStream_t stream) {
  const PlaceProduct product(shape);
  const auto places = uint64_t{shape.rows} * shape.high * shape.wide;
  const dim3 grid(static_cast<uint32_t>(over(places, product.places_tile)),
                  static_cast<uint32_t>(over(shape.units, product.units_tile)));
  const auto threads = product.threads();
  const auto bytes = std::max(2 * product.stage(), threads / 2 * 64)
                     * sizeof(float);
  with_accessed(shape.channels, shape.units, [&]<uint32_t X, uint32_t Y>() {
    place_product_kernel<X, Y>
      <<<grid, threads, bytes, stream>>>(shape, product, x, w, bias, relu, y);
  });
}

bool has_input_gradient(const DirectConvolution& shape) {
  return shape.stride == 1 && shape.padding < shape.kernel
         && has_forward(turned(shape));
}

void input_gradient(const DirectConvolution& shape, const float* dy,
                    const float* w, float* dx, float* scratch,
                    cudaStream_t stream) {
  const auto places = shape.kernel * shape.kernel;
  launch_each(uint64_t{places} * shape.channels * shape.units,
              TurnWeights{w, scratch, places, shape.channels, shape.units},
              stream);
  forward(turned(shape), dy, scratch, nullptr, false, dx, stream);
}

uint64_t weight_gradient_scratch(const DirectConvolution& shape) {
  const WindowProduct product(shape);
  const auto most = std::min(over(WindowProduct::wanted_blocks,
                                  product.inner_tiles * product.units_tiles),
                             over(product.places, product.step));
  return most * product.inner * shape.units;
}

void weight_gradient(const DirectConvolution& shape, const float* x,
                     const float* dy, float* dw, bool accumulate,
                     float* scratch, cudaStream_t stream) {
  const WindowProduct product(shape);
  const dim3 grid(product.inner_tiles * product.units_tiles, product.chunks);
  const auto threads = product.threads();
  const auto bytes =
    std::max(2 * product.step * (product.inner_tile + product.units_tile),
             threads / 2 * 64)
    * sizeof(float);
  with_accessed(shape.channels, shape.units, [&]<uint32_t X, uint32_t Y>() {
    window_product_kernel<X, Y>
      <<<grid, threads, bytes, stream>>>(shape, product, x, dy, scratch);
  });
  add_chunks(scratch, product.chunks, product.inner * shape.units,
             {{dw, accumulate}}, stream);
}

void weights_to_dnn(const float* w, void* to, uint64_t inner, uint32_t units,
                    bool half, cudaStream_t stream) {
  if (half)
    launch_each(inner * units,
                ToDnn<bfloat16>{w, static_cast<bfloat16*>(to), inner, units},
                stream);
  else
    launch_each(inner * units,
                ToDnn<float>{w, static_cast<float*>(to), inner, units}, stream);
}

void weights_from_dnn(const void* from, float* w, uint64_t inner,
                      uint32_t units, bool half, bool accumulate,
                      cudaStream_t stream) {
  if (half)
    launch_each(inner * units,
                FromDnn<bfloat16>{static_cast<const bfloat16*>(from), w, inner,
                                  units, accumulate},
                stream);
  else
    launch_each(inner * units,
                FromDnn<float>{static_cast<const float*>(from), w, inner, units,
                               accumulate},
                stream);
}

void widen(const void* in, float* out, uint64_t count, cudaStream_t stream) {
  launch_each(count, Widen{static_cast<const bfloat16*>(in), out}, stream);
}

} // namespace troupe::kernels::cuda

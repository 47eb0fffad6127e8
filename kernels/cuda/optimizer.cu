#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/optimizer.cuh"

// Built with -fmad=false: see update_all.

namespace troupe::kernels::cuda {

namespace {

using Kind = UpdateRun::Kind;

/// Value, summed gradient and state of an element.
struct Element {
  float p;
  float g;
  float s[2];
};

template <int Slots>
__device__ Element load(const DeviceUpdate& args, uint64_t i) {
  Element x{args.parameters[i], args.gradient[i], {}};
#pragma unroll
  for (int slot = 0; slot < Slots; ++slot)
    x.s[slot] = args.state[slot * args.stride + i];
  return x;
}

__device__ float mean_of(const UpdateTerms& t, float g) {
  return t.inverse != 0.0f ? g * t.inverse : g / t.samples;
}

/// The mean gradient, clipped, decay added.
__device__ float gradient_of(const UpdateTerms& t, float scale,
                             const Element& x) {
  const auto g = mean_of(t, x.g) * scale;
  return t.weight_decay != 0.0f ? g + t.weight_decay * x.p : g;
}

__device__ void add_moments(const UpdateTerms& t, float g, Element& x) {
  x.s[0] = t.decay[0] * x.s[0] + t.fresh[0] * g;
  x.s[1] = t.decay[1] * x.s[1] + t.fresh[1] * (g * g);
}

__device__ void follow_leader(const UpdateTerms& t, float g, Element& x) {
  const auto before = x.s[1];
  const auto root = sqrtf(before * before + g * g);
  x.s[0] = x.s[0] + (t.step_size * g - (root - before) * x.p);
  x.s[1] = root;
  const auto z = x.s[0];
  const auto pull = z < 0 ? -t.threshold : t.threshold;
  const auto w = (pull - z) / (root + t.epsilon);
  if (root != 0)
    x.p = fabsf(z) <= t.threshold ? 0.0f : w;
}

/// LAMB's update before the trust ratio; leaves the next moments.
__device__ float direction_of(const UpdateTerms& t, float g, Element& x) {
  add_moments(t, g, x);
  const auto root = sqrtf(x.s[1]) * t.root_scale + t.epsilon;
  const auto u = t.first_scale * x.s[0] / root;
  return t.decoupled != 0.0f ? u + t.decoupled * x.p : u;
}

template <OptimizerKind Rule>
__device__ void apply(const UpdateTerms& t, float scale, Element& x) {
  const auto g = gradient_of(t, scale, x);
  if constexpr (Rule == OptimizerKind::sgd) {
    x.p = x.p - t.step_size * g;
  } else if constexpr (Rule == OptimizerKind::momentum) {
    x.s[0] = t.decay[0] * x.s[0] + g;
    x.p = x.p - t.step_size * x.s[0];
  } else if constexpr (Rule == OptimizerKind::nesterov) {
    x.s[0] = t.decay[0] * x.s[0] + g;
    x.p = x.p - t.step_size * (g + t.decay[0] * x.s[0]);
  } else if constexpr (Rule == OptimizerKind::adam) {
    add_moments(t, g, x);
    const auto root = sqrtf(x.s[1]) * t.root_scale + t.epsilon;
    x.p = t.keep * x.p - t.step_size * (x.s[0] / root);
  } else if constexpr (Rule == OptimizerKind::adagrad) {
    x.s[0] = x.s[0] + g * g;
    x.p = x.p - t.step_size * (g / (sqrtf(x.s[0]) + t.epsilon));
  } else if constexpr (Rule == OptimizerKind::rmsprop) {
    x.s[0] = t.decay[1] * x.s[0] + t.fresh[1] * (g * g);
    x.p = x.p - t.step_size * (g / (sqrtf(x.s[0]) + t.epsilon));
  } else if constexpr (Rule == OptimizerKind::lamb) {
    x.p = x.p - t.step_size * direction_of(t, g, x);
  } else {
    follow_leader(t, g, x);
  }
}

template <OptimizerKind Rule, int Slots>
__global__ void __launch_bounds__(flat_threads)
  update_kernel(const __grid_constant__ DeviceUpdate args) {
  constexpr uint32_t batch = 4; // elements whose loads do not wait
  if (*args.spoiled == args.terms->sequence)
    return;
  const auto run = args.runs[blockIdx.x];
  auto t = run.kind == Kind::decayed ? args.terms->decayed
                                     : args.terms->undecayed;
  if (Rule == OptimizerKind::lamb && run.kind != Kind::statistic)
    t.step_size =
      static_cast<float>(double{t.step_size} * args.ratios[run.layer]);
  const auto scale = args.clips ? *args.scale : 1.0f;
  const bool lazy = args.lazy && run.by_rows;
  for (auto first = threadIdx.x; first < run.count;
       first += batch * flat_threads) {
    Element x[batch];
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b) {
      const auto k = first + b * flat_threads;
      if (k >= run.count)
        continue;
      const auto i = run.offset + k;
      x[b] = run.kind == Kind::statistic ? load<0>(args, i)
                                         : load<Slots>(args, i);
    }
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b) {
      const auto k = first + b * flat_threads;
      if (k >= run.count)
        continue;
      const auto i = run.offset + k;
      if (run.kind == Kind::statistic) {
        const auto p = x[b].p;
        args.parameters[i] = p + run.momentum * (mean_of(t, x[b].g) - p);
        continue;
      }
      if (lazy && x[b].g == 0.0f)
        continue;
      apply<Rule>(t, scale, x[b]);
      args.parameters[i] = x[b].p;
#pragma unroll
      for (int slot = 0; slot < Slots; ++slot)
        args.state[slot * args.stride + i] = x[b].s[slot];
    }
  }
}

__device__ bool is_finite(const float4& x) {
  return isfinite(x.x) && isfinite(x.y) && isfinite(x.z) && isfinite(x.w);
}

struct SpoilsUpdate {
  const float4* values;
  const StepTerms* terms;
  uint32_t* spoiled;

  __device__ void operator()(uint64_t i) const {
    if (!is_finite(values[i]))
      atomicExch(spoiled, terms->sequence);
  }
};

struct NotFinite {
  const float4* values;
  uint32_t* found;

  __device__ void operator()(uint64_t i) const {
    if (!is_finite(values[i]))
      atomicExch(found, 1u);
  }
};

// Sixteen threads take a block of squares: element i belongs to thread i modulo
// 16, as on the CPU.
constexpr uint32_t accumulators = 16;

__device__ uint32_t block_of_thread() {
  return (blockIdx.x * blockDim.x + threadIdx.x) / accumulators;
}

/// Writes the block's sum, of what its sixteen threads have. All threads.
__device__ void put_sum(const DeviceUpdate& args, double sum, double* sums) {
  for (auto apart = accumulators / 2; apart > 0; apart /= 2)
    sum += __shfl_xor_sync(everyone, sum, apart);
  const auto b = block_of_thread();
  if (threadIdx.x % accumulators == 0 && b < args.block_count)
    sums[b] = sum;
}

__global__ void __launch_bounds__(flat_threads)
  squares_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto b = block_of_thread();
  const auto block = b < args.block_count ? args.blocks[b] : SquareBlock{};
  const auto* values = args.gradient + block.offset;
  double sum = 0;
#pragma unroll
  for (auto i = threadIdx.x % accumulators; i < block.count;
       i += accumulators) {
    const double g = values[i];
    sum += g * g;
  }
  put_sum(args, sum, args.squares);
}

/// The same of the values and of LAMB's directions, of which nothing is kept.
__global__ void __launch_bounds__(flat_threads)
  lamb_squares_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto b = block_of_thread();
  const auto block = b < args.block_count ? args.blocks[b] : SquareBlock{};
  const auto t = block.decays ? args.terms->decayed : args.terms->undecayed;
  const auto scale = args.clips ? *args.scale : 1.0f;
  const bool lazy = args.lazy && block.by_rows;
  double values = 0;
  double directions = 0;
#pragma unroll 4
  for (auto i = threadIdx.x % accumulators; i < block.count;
       i += accumulators) {
    auto x = load<2>(args, block.offset + i);
    if (lazy && x.g == 0.0f)
      continue;
    const double p = x.p;
    const double u = direction_of(t, gradient_of(t, scale, x), x);
    values += p * p;
    directions += u * u;
  }
  put_sum(args, values, args.squares);
  put_sum(args, directions, args.directions);
}

/// values[0] becomes their sum along tree_sum()'s tree: neighbours first. One
/// block, all threads.
__device__ void add_up(double* values, uint32_t count) {
  for (uint32_t apart = 1; apart < count; apart *= 2) {
    __syncthreads();
    for (uint64_t i = uint64_t{threadIdx.x} * 2 * apart; i + apart < count;
         i += uint64_t{blockDim.x} * 2 * apart)
      values[i] += values[i + apart];
  }
  __syncthreads();
}

/// A block a parameter.
__global__ void __launch_bounds__(flat_threads)
  trees_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto tree = args.trees[blockIdx.x];
  auto* values = args.squares + tree.first;
  add_up(values, tree.count);
  if (threadIdx.x == 0)
    args.squares[args.block_count + blockIdx.x] = values[0];
}

/// One block: what the gradient is multiplied with, as clip_scale().
__global__ void __launch_bounds__(flat_threads)
  scale_kernel(const __grid_constant__ DeviceUpdate args) {
  auto* values = args.squares + args.block_count;
  add_up(values, args.tree_count);
  if (threadIdx.x != 0)
    return;
  const auto norm = sqrt(values[0]) / args.terms->samples;
  const auto limit = args.terms->clip_norm;
  *args.scale = norm <= limit ? 1.0f
                              : static_cast<float>(limit / (norm + 1e-6));
  if (!isfinite(values[0])) // squares of floats do not overflow
    *args.spoiled = args.terms->sequence;
}

/// A block a layer: its trust ratio, as trust_ratio(), of all its pieces.
__global__ void __launch_bounds__(flat_threads)
  ratios_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto layer = args.layers[blockIdx.x];
  if (layer.count == 0)
    return;
  double* const sums[] = {args.squares, args.directions};
  double totals[2];
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    auto* of_pieces = sums[which] + args.block_count + layer.first;
    for (uint32_t i = 0; i < layer.count; ++i) {
      const auto piece = args.pieces[layer.first + i];
      add_up(sums[which] + piece.first, piece.count);
      if (threadIdx.x == 0)
        of_pieces[i] = sums[which][piece.first];
    }
    add_up(of_pieces, layer.count);
    totals[which] = of_pieces[0];
  }
  if (threadIdx.x == 0)
    args.ratios[blockIdx.x] =
      totals[0] == 0 || totals[1] == 0
        ? 1.0f
        : static_cast<float>(sqrt(totals[0]) / sqrt(totals[1]));
}

template <OptimizerKind Rule, int Slots>
void launch(const DeviceUpdate& args, cudaStream_t stream) {
  update_kernel<Rule, Slots><<<args.run_count, flat_threads, 0, stream>>>(args);
}

} // namespace

void update_all(const DeviceUpdate& args, cudaStream_t stream) {
  const auto of_squares = static_cast<uint32_t>(
    over(uint64_t{args.block_count} * accumulators, flat_threads));
  if (args.clips && args.tree_count > 0) {
    squares_kernel<<<of_squares, flat_threads, 0, stream>>>(args);
    trees_kernel<<<args.tree_count, flat_threads, 0, stream>>>(args);
    scale_kernel<<<1, flat_threads, 0, stream>>>(args);
  }
  if (!args.clips || args.has_statistics)
    launch_each(args.stride / 4,
                SpoilsUpdate{reinterpret_cast<const float4*>(args.gradient),
                             args.terms, args.spoiled},
                stream);
  if (args.rule == OptimizerKind::lamb && args.tree_count > 0) {
    lamb_squares_kernel<<<of_squares, flat_threads, 0, stream>>>(args);
    ratios_kernel<<<args.layer_count, flat_threads, 0, stream>>>(args);
  }
  switch (args.rule) {
    case OptimizerKind::sgd:
      return launch<OptimizerKind::sgd, 0>(args, stream);
    case OptimizerKind::momentum:
      return launch<OptimizerKind::momentum, 1>(args, stream);
    case OptimizerKind::nesterov:
      return launch<OptimizerKind::nesterov, 1>(args, stream);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return launch<OptimizerKind::adam, 2>(args, stream);
    case OptimizerKind::lamb:
      return launch<OptimizerKind::lamb, 2>(args, stream);
    case OptimizerKind::adagrad:
      return launch<OptimizerKind::adagrad, 1>(args, stream);
    case OptimizerKind::rmsprop:
      return launch<OptimizerKind::rmsprop, 1>(args, stream);
    case OptimizerKind::ftrl:
      return launch<OptimizerKind::ftrl, 2>(args, stream);
  }
}

void find_not_finite(const float* values, uint64_t count, uint32_t* found,
                     cudaStream_t stream) {
  launch_each(count / 4,
              NotFinite{reinterpret_cast<const float4*>(values), found},
              stream);
}

} // namespace troupe::kernels::cuda

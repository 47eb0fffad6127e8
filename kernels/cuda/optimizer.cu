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

__device__ float mean_of(const UpdateTerms& t, float g) {
  return t.inverse != 0.0f ? g * t.inverse : g / t.samples;
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

template <OptimizerKind Rule>
__device__ void apply(const UpdateTerms& t, float scale, Element& x) {
  auto g = mean_of(t, x.g) * scale;
  if (t.weight_decay != 0.0f)
    g = g + t.weight_decay * x.p;
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
  } else {
    follow_leader(t, g, x);
  }
}

template <OptimizerKind Rule, int Slots>
__global__ void __launch_bounds__(flat_threads)
  update_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto run = args.runs[blockIdx.x];
  const auto t = run.kind == Kind::decayed ? args.terms->decayed
                                           : args.terms->undecayed;
  const auto scale = args.clips ? *args.scale : 1.0f;
  for (auto k = threadIdx.x; k < run.count; k += blockDim.x) {
    const auto i = run.offset + k;
    Element x{args.parameters[i], args.gradient[i], {}};
    if (run.kind == Kind::statistic) {
      args.parameters[i] = x.p + run.momentum * (mean_of(t, x.g) - x.p);
      continue;
    }
#pragma unroll
    for (int slot = 0; slot < Slots; ++slot)
      x.s[slot] = args.state[slot * args.state_stride + i];
    apply<Rule>(t, scale, x);
    args.parameters[i] = x.p;
#pragma unroll
    for (int slot = 0; slot < Slots; ++slot)
      args.state[slot * args.state_stride + i] = x.s[slot];
  }
}

__global__ void __launch_bounds__(flat_threads)
  squares_kernel(const __grid_constant__ DeviceUpdate args) {
  const auto run = args.runs[blockIdx.x];
  double sum = 0;
  if (run.kind != Kind::statistic)
    for (auto k = threadIdx.x; k < run.count; k += blockDim.x) {
      const double g = args.gradient[run.offset + k];
      sum += g * g;
    }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    args.squares[blockIdx.x] = sum;
}

/// One block: the runs' sums, and what the gradient is multiplied with.
__global__ void __launch_bounds__(1024)
  scale_kernel(const __grid_constant__ DeviceUpdate args) {
  double sum = 0;
  for (auto i = threadIdx.x; i < args.run_count; i += blockDim.x)
    sum += args.squares[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0)
    return;
  const auto norm = sqrt(sum) / args.terms->samples;
  const auto limit = args.terms->clip_norm;
  *args.scale = norm <= limit ? 1.0f
                              : static_cast<float>(limit / (norm + 1e-6));
}

template <OptimizerKind Rule, int Slots>
void launch(const DeviceUpdate& args, cudaStream_t stream) {
  update_kernel<Rule, Slots><<<args.run_count, flat_threads, 0, stream>>>(args);
}

} // namespace

void update_all(const DeviceUpdate& args, cudaStream_t stream) {
  if (args.clips) {
    squares_kernel<<<args.run_count, flat_threads, 0, stream>>>(args);
    scale_kernel<<<1, 1024, 0, stream>>>(args);
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
    case OptimizerKind::lamb: // refused earlier
      return launch<OptimizerKind::adam, 2>(args, stream);
    case OptimizerKind::adagrad:
      return launch<OptimizerKind::adagrad, 1>(args, stream);
    case OptimizerKind::rmsprop:
      return launch<OptimizerKind::rmsprop, 1>(args, stream);
    case OptimizerKind::ftrl:
      return launch<OptimizerKind::ftrl, 2>(args, stream);
  }
}

} // namespace troupe::kernels::cuda

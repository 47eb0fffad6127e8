#include "kernels/cuda/tensor_core.cuh"

#include <boost/test/unit_test.hpp>
#include <cublasLt.h>
#include <cuda_stand_in.h>

#include <algorithm>
#include <numeric>
#include <vector>

// The stand-in finds what it is for, and computes what is documented: each test
// has a kernel or a program that is right, or wrong in one way.

using namespace troupe::kernels::cuda;

namespace {

/// A stream, and memory on the device that goes with it.
class Bench {
public:
  Bench() {
    cuda_stand_in::configure("seed=0,fail_malloc=0,fail_launch=0,keep_going=0");
    BOOST_REQUIRE_EQUAL(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
  }
  ~Bench() {
    cudaDeviceReset();
    cudaStreamDestroy(stream);
    for (auto* one : memory_)
      cudaFree(one);
    cudaFreeHost(pinned_);
    cudaGetLastError();
  }

  template <class T>
  T* empty(size_t count) {
    void* at = nullptr;
    BOOST_REQUIRE_EQUAL(cudaMalloc(&at, count * sizeof(T)), cudaSuccess);
    memory_.push_back(at);
    return static_cast<T*>(at);
  }
  template <class T>
  T* filled(const std::vector<T>& values) {
    auto* at = empty<T>(values.size());
    BOOST_REQUIRE_EQUAL(cudaMemcpyAsync(at, values.data(),
                                        values.size() * sizeof(T),
                                        cudaMemcpyHostToDevice, stream),
                        cudaSuccess);
    return at;
  }
  template <class T>
  std::vector<T> values(const T* at, size_t count) {
    std::vector<T> result(count);
    BOOST_REQUIRE_EQUAL(cudaMemcpyAsync(result.data(), at, count * sizeof(T),
                                        cudaMemcpyDeviceToHost, stream),
                        cudaSuccess);
    BOOST_REQUIRE_EQUAL(wait(), cudaSuccess);
    return result;
  }
  template <class T>
  T* pinned(size_t count) {
    BOOST_REQUIRE_EQUAL(cudaMallocHost(&pinned_, count * sizeof(T)),
                        cudaSuccess);
    return static_cast<T*>(pinned_);
  }
  cudaError_t wait() { return cudaStreamSynchronize(stream); }

  /// The work before ends the device, and its fault's text has these words.
  void fails(cudaError_t status, const std::string& words) {
    BOOST_TEST(wait() == status);
    const auto text = cuda_stand_in::last_fault();
    BOOST_TEST(text.find(words) != text.npos, text);
    // Nothing else works until it is reset.
    void* at = nullptr;
    BOOST_TEST(cudaMalloc(&at, 4) == status);
    cudaDeviceReset();
    BOOST_TEST(cudaMalloc(&at, 4) == cudaSuccess);
    BOOST_TEST(cudaFree(at) == cudaSuccess);
  }

  cudaStream_t stream = nullptr;

private:
  std::vector<void*> memory_;
  void* pinned_ = nullptr;
};

__global__ void copy_kernel(const int* from, int* to, uint32_t count) {
  const auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    to[i] = from[i];
}

__global__ void sum_kernel(const float* from, float* to) {
  const auto sum = block_sum(from[blockIdx.x * blockDim.x + threadIdx.x]);
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void ballot_kernel(uint32_t* to) {
  to[threadIdx.x] = __ballot_sync(everyone, threadIdx.x % 3 == 0);
}

/// Reverses a block by shared memory; without the barrier it is a race.
__global__ void reverse_kernel(int* values, bool waits) {
  __shared__ int kept[256];
  kept[threadIdx.x] = values[threadIdx.x];
  if (waits)
    __syncthreads();
  values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

__global__ void add_up_kernel(const int* from, int* to) {
  *to += from[blockIdx.x];
}

__global__ void halves_kernel(bfloat16* to) {
  to[threadIdx.x] = rounded<bfloat16>(static_cast<float>(threadIdx.x));
}

__global__ void split_barrier_kernel(int* to) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  to[threadIdx.x] = 1;
}

__global__ void half_a_warp_kernel(float* to) {
  if (threadIdx.x < 16)
    return;
  to[threadIdx.x] = warp_sum(1.0f);
}

__global__ void wide_kernel(const float* from, float4* to) {
  *to = *reinterpret_cast<const float4*>(from);
}

__global__ void unwritten_shared_kernel(int* to) {
  __shared__ int kept[64];
  if (threadIdx.x < 32)
    kept[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = kept[threadIdx.x];
}

__global__ void dynamic_kernel(float* to, uint32_t count) {
  extern __shared__ float memory[];
  memory[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = memory[count - 1 - threadIdx.x];
}

/// c [16, 8] = a [16, 16] b [16, 8], all bfloat16 in memory as they are read.
__global__ void product_kernel(const bfloat16* a, const bfloat16* b, float* c) {
  __shared__ __align__(16) bfloat16 left[16 * 16];
  __shared__ __align__(16) bfloat16 right[16 * 16];
  const auto lane = threadIdx.x;
  for (auto i = lane; i < 256; i += warp) {
    left[i] = a[i];
    right[i] = b[i];
  }
  __syncthreads();
  Accumulator sums[2] = {};
  multiply_add(sums[0], sums[1], load_left(left, 16, 0, 0),
               load_right_as_is(right, 16, 0, 0));
  Accumulator turned[2] = {};
  multiply_add(turned[0], turned[1], load_left(left, 16, 0, 0),
               load_right(right, 16, 0, 0));
  for (uint32_t n = 0; n < 2; ++n)
    for (uint32_t e = 0; e < 4; ++e) {
      const auto row = lane / 4 + e / 2 * 8;
      const auto column = n * 8 + lane % 4 * 2 + e % 2;
      c[row * 16 + column] = sums[n][e];
      c[256 + row * 16 + column] = turned[n][e];
    }
}

std::vector<int> counted(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cuda_stand_in_test)

BOOST_AUTO_TEST_CASE(a_kernel_computes_whatever_the_order_of_its_threads) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Bench bench;
    cuda_stand_in::configure("seed=" + std::to_string(seed));
    auto* from = bench.filled(std::vector<float>(512, 1.0f));
    auto* to = bench.empty<float>(512);
    sum_kernel<<<4, 128, 0, bench.stream>>>(from, to);
    BOOST_TEST(bench.values(to, 512) == std::vector<float>(512, 128.0f));
    auto* votes = bench.empty<uint32_t>(64);
    ballot_kernel<<<1, 64, 0, bench.stream>>>(votes);
    const auto have = bench.values(votes, 64);
    BOOST_TEST(have[0] == 0x49249249u);
    BOOST_TEST(have[63] == 0x92492492u);
    auto* values = bench.filled(counted(256));
    reverse_kernel<<<1, 256, 0, bench.stream>>>(values, true);
    auto want = counted(256);
    std::reverse(want.begin(), want.end());
    BOOST_TEST(bench.values(values, 256) == want);
    auto* halves = bench.empty<bfloat16>(64);
    halves_kernel<<<1, 64, 0, bench.stream>>>(halves);
    BOOST_TEST(bench.values(halves, 64)[63].bits == 0x427c);
  }
}

BOOST_AUTO_TEST_CASE(tensor_cores_multiply_as_documented) {
  Bench bench;
  std::vector<bfloat16> a(256);
  std::vector<bfloat16> b(256);
  for (size_t i = 0; i < 256; ++i) {
    a[i] = __float2bfloat16_rn(static_cast<float>(i % 7) - 3);
    b[i] = __float2bfloat16_rn(static_cast<float>(i * i % 11) - 5);
  }
  auto* c = bench.empty<float>(512);
  product_kernel<<<1, 32, 0, bench.stream>>>(bench.filled(a), bench.filled(b),
                                             c);
  const auto have = bench.values(c, 512);
  for (size_t m = 0; m < 16; ++m)
    for (size_t n = 0; n < 16; ++n) {
      float want = 0;
      float turned = 0;
      for (size_t k = 0; k < 16; ++k) {
        want += value_of(a[m * 16 + k]) * value_of(b[k * 16 + n]);
        turned += value_of(a[m * 16 + k]) * value_of(b[n * 16 + k]);
      }
      BOOST_TEST(have[m * 16 + n] == want);
      BOOST_TEST(have[256 + m * 16 + n] == turned);
    }
}

BOOST_AUTO_TEST_CASE(a_read_beyond_an_allocation_is_found) {
  Bench bench;
  auto* from = bench.filled(counted(100));
  auto* to = bench.empty<int>(128);
  copy_kernel<<<1, 128, 0, bench.stream>>>(from, to, 101);
  bench.fails(cudaErrorIllegalAddress,
              "kernel copy_kernel, block (0, 0, 0), thread (100, 0, 0) reads "
              "outside of what is allocated: 4 bytes at beyond the end, at "
              "byte 400 of 400 bytes");
}

BOOST_AUTO_TEST_CASE(a_write_to_freed_memory_is_found) {
  Bench bench;
  auto* from = bench.filled(counted(32));
  void* to = nullptr;
  BOOST_REQUIRE_EQUAL(cudaMalloc(&to, 128), cudaSuccess);
  BOOST_REQUIRE_EQUAL(cudaFree(to), cudaSuccess);
  copy_kernel<<<1, 32, 0, bench.stream>>>(from, static_cast<int*>(to), 32);
  bench.fails(cudaErrorIllegalAddress, "of freed 128 bytes");
}

BOOST_AUTO_TEST_CASE(a_read_of_what_nothing_wrote_is_found) {
  Bench bench;
  copy_kernel<<<1, 32, 0, bench.stream>>>(bench.empty<int>(32),
                                          bench.empty<int>(32), 32);
  bench.fails(cudaErrorLaunchFailure, "reads what nothing has written");
  unwritten_shared_kernel<<<1, 64, 0, bench.stream>>>(bench.empty<int>(64));
  bench.fails(cudaErrorLaunchFailure, "of the block's shared memory");
  std::vector<int> host(4);
  BOOST_TEST(cudaMemcpyAsync(host.data(), bench.empty<int>(4), 16,
                             cudaMemcpyDeviceToHost, bench.stream)
             == cudaErrorIllegalAddress);
  bench.fails(cudaErrorIllegalAddress, "a copy reads what nothing has written");
}

BOOST_AUTO_TEST_CASE(the_hosts_memory_is_none_of_a_kernels) {
  Bench bench;
  const auto values = counted(32);
  copy_kernel<<<1, 32, 0, bench.stream>>>(values.data(), bench.empty<int>(32),
                                          32);
  bench.fails(cudaErrorIllegalAddress, "touches the host's memory");
}

BOOST_AUTO_TEST_CASE(a_misaligned_vector_is_found) {
  Bench bench;
  auto* from = bench.filled(std::vector<float>(8, 1.0f));
  wide_kernel<<<1, 1, 0, bench.stream>>>(from, bench.empty<float4>(1));
  BOOST_TEST(bench.wait() == cudaSuccess);
  wide_kernel<<<1, 1, 0, bench.stream>>>(from + 1, bench.empty<float4>(1));
  bench.fails(cudaErrorMisalignedAddress, "no multiple of its size");
}

BOOST_AUTO_TEST_CASE(threads_that_nothing_orders_are_found) {
  Bench bench;
  reverse_kernel<<<1, 256, 0, bench.stream>>>(bench.filled(counted(256)),
                                              false);
  bench.fails(cudaErrorLaunchFailure, "of the block's shared memory");
  const auto text = cuda_stand_in::last_fault();
  const bool found = text.find("unordered") != text.npos
                     || text.find("nothing has written") != text.npos;
  BOOST_TEST(found, text);
  // Blocks have no barrier at all.
  add_up_kernel<<<4, 1, 0, bench.stream>>>(bench.filled(counted(4)),
                                           bench.filled(counted(1)));
  bench.fails(cudaErrorLaunchFailure, "unordered");
}

BOOST_AUTO_TEST_CASE(a_barrier_that_not_all_come_to_is_found) {
  Bench bench;
  split_barrier_kernel<<<1, 64, 0, bench.stream>>>(bench.empty<int>(64));
  bench.fails(cudaErrorLaunchFailure,
              "while others of its block are at that of stand_in_test.cu:");
}

BOOST_AUTO_TEST_CASE(lanes_that_have_left_are_not_waited_for) {
  Bench bench;
  half_a_warp_kernel<<<1, 32, 0, bench.stream>>>(bench.empty<float>(32));
  bench.fails(cudaErrorLaunchFailure, "for lanes");
}

BOOST_AUTO_TEST_CASE(a_launch_that_no_gpu_takes_is_refused) {
  Bench bench;
  auto* to = bench.empty<float>(1024);
  auto status = [&](dim3 grid, dim3 block, size_t bytes) {
    dynamic_kernel<<<grid, block, bytes, bench.stream>>>(to, block.x);
    return cudaGetLastError();
  };
  BOOST_TEST(status(0, 32, 128) == cudaErrorInvalidConfiguration);
  BOOST_TEST(status(1, 1025, 128) == cudaErrorInvalidConfiguration);
  BOOST_TEST(status(dim3(1, 65536), 32, 128) == cudaErrorInvalidConfiguration);
  BOOST_TEST(status(1, 32, 49 << 10) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFuncSetAttribute(dynamic_kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  64 << 10)
             == cudaSuccess);
  BOOST_TEST(status(1, 32, 49 << 10) == cudaSuccess);
  BOOST_TEST(bench.wait() == cudaSuccess);
  BOOST_TEST(status(1, 32, 127) == cudaSuccess);
  bench.fails(cudaErrorIllegalAddress, "outside of what is allocated");
}

BOOST_AUTO_TEST_CASE(work_has_not_happened_before_it_is_waited_for) {
  Bench bench;
  auto* pinned = bench.pinned<int>(32);
  std::fill_n(pinned, 32, 1);
  auto* at = bench.empty<int>(32);
  // Pinned memory is read when the copy runs, pageable when it is called.
  cudaMemcpyAsync(at, pinned, 128, cudaMemcpyHostToDevice, bench.stream);
  std::fill_n(pinned, 32, 2);
  BOOST_TEST(bench.values(at, 32) == std::vector<int>(32, 2));
  std::vector<int> pageable(32, 3);
  cudaMemcpyAsync(at, pageable.data(), 128, cudaMemcpyHostToDevice,
                  bench.stream);
  std::fill_n(pageable.begin(), 32, 4);
  BOOST_TEST(bench.values(at, 32) == std::vector<int>(32, 3));
  // An event that has been waited for has what came before it.
  cudaMemsetAsync(at, 0, 128, bench.stream);
  cudaMemcpyAsync(pinned, at, 128, cudaMemcpyDeviceToHost, bench.stream);
  BOOST_TEST(pinned[0] == 2);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, bench.stream);
  BOOST_TEST(cudaEventSynchronize(event) == cudaSuccess);
  BOOST_TEST(pinned[0] == 0);
  cudaEventDestroy(event);
}

BOOST_AUTO_TEST_CASE(memory_that_is_registered_is_read_when_the_copy_runs) {
  Bench bench;
  std::vector<int> host(64, 1);
  auto* at = bench.empty<int>(64);
  BOOST_TEST(cudaHostRegister(host.data(), 128, cudaHostRegisterPortable)
             == cudaSuccess);
  BOOST_TEST(cudaHostRegister(host.data() + 31, 128, cudaHostRegisterPortable)
             == cudaErrorHostMemoryAlreadyRegistered);
  // A copy knows one kind of memory.
  BOOST_TEST(
    cudaMemcpyAsync(at, host.data(), 256, cudaMemcpyHostToDevice, bench.stream)
    == cudaErrorInvalidValue);
  cudaMemcpyAsync(at, host.data(), 128, cudaMemcpyHostToDevice, bench.stream);
  std::fill_n(host.begin(), 32, 2);
  BOOST_TEST(bench.values(at, 32) == std::vector<int>(32, 2));
  BOOST_TEST(cudaHostUnregister(host.data()) == cudaSuccess);
  BOOST_TEST(cudaHostUnregister(host.data())
             == cudaErrorHostMemoryNotRegistered);
  cuda_stand_in::configure("pins=0");
  BOOST_TEST(cudaHostRegister(host.data(), 128, cudaHostRegisterPortable)
             == cudaErrorNotSupported);
  cuda_stand_in::configure("pins=1");
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_an_event_of_another) {
  Bench bench;
  auto* at = bench.filled(counted(32));
  auto* to = bench.empty<int>(32);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, bench.stream);
  BOOST_TEST(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
  copy_kernel<<<1, 32, 0, other>>>(at, to, 32);
  BOOST_TEST(cudaStreamSynchronize(other) == cudaSuccess);
  BOOST_TEST(bench.values(to, 32) == counted(32));
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
}

BOOST_AUTO_TEST_CASE(a_recorded_graph_runs_as_often_as_it_is_launched) {
  Bench bench;
  auto* at = bench.filled(counted(1));
  auto* one = bench.filled(std::vector<int>{1});
  auto begin = [&] {
    return cudaStreamBeginCapture(bench.stream,
                                  cudaStreamCaptureModeThreadLocal);
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  BOOST_TEST(begin() == cudaSuccess);
  add_up_kernel<<<1, 1, 0, bench.stream>>>(one, at);
  BOOST_TEST(cudaStreamEndCapture(bench.stream, &graph) == cudaSuccess);
  BOOST_TEST(bench.values(at, 1) == std::vector<int>{0});
  BOOST_TEST(cudaGraphInstantiate(&made, graph, 0) == cudaSuccess);
  BOOST_TEST(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(cudaGraphLaunch(made, bench.stream) == cudaSuccess);
  BOOST_TEST(bench.values(at, 1) == std::vector<int>{3});
  BOOST_TEST(cudaGraphExecDestroy(made) == cudaSuccess);
  // What waits or allocates is not recorded, and spoils the recording.
  void* memory = nullptr;
  BOOST_TEST(begin() == cudaSuccess);
  BOOST_TEST(cudaMalloc(&memory, 4) == cudaErrorStreamCaptureUnsupported);
  BOOST_TEST(cudaStreamEndCapture(bench.stream, &graph)
             == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(begin() == cudaSuccess);
  BOOST_TEST(bench.wait() == cudaErrorStreamCaptureUnsupported);
  BOOST_TEST(cudaStreamEndCapture(bench.stream, &graph)
             == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST((graph == nullptr));
}

BOOST_AUTO_TEST_CASE(failures_come_where_they_are_asked_for) {
  Bench bench;
  void* at = nullptr;
  cuda_stand_in::configure("fail_malloc=2");
  BOOST_TEST(cudaMalloc(&at, 4) == cudaSuccess);
  cudaFree(at);
  BOOST_TEST(cudaMalloc(&at, 4) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&at, 4) == cudaSuccess);
  cudaFree(at);
  size_t free = 0;
  size_t total = 0;
  BOOST_TEST(cudaMemGetInfo(&free, &total) == cudaSuccess);
  BOOST_TEST(free <= total);
  BOOST_TEST(cudaMalloc(&at, total + 1) == cudaErrorMemoryAllocation);
  cuda_stand_in::configure("fail_malloc=0,fail_launch=2");
  auto* from = bench.filled(counted(32));
  auto* to = bench.empty<int>(32);
  copy_kernel<<<1, 32, 0, bench.stream>>>(from, to, 32);
  BOOST_TEST(bench.wait() == cudaSuccess);
  copy_kernel<<<1, 32, 0, bench.stream>>>(from, to, 32);
  bench.fails(cudaErrorLaunchFailure, "as it was asked to");
}

BOOST_AUTO_TEST_CASE(what_is_to_keep_going_does) {
  Bench bench;
  cuda_stand_in::configure("keep_going=1");
  auto* to = bench.empty<int>(32);
  copy_kernel<<<1, 32, 0, bench.stream>>>(bench.empty<int>(32), to, 32);
  BOOST_TEST(bench.wait() == cudaSuccess);
  BOOST_TEST(bench.values(to, 32).size() == 32u);
}

BOOST_AUTO_TEST_SUITE_END()

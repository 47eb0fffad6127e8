#pragma once

// Stands in for the CUDA runtime's header where kernels/cuda/ is compiled by a
// C++ compiler: the part of the API that the product calls, the language's
// words, and what a kernel may call. translate.py rewrites what no C++ compiler
// reads: launches, shared memory, PTX.

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <cstddef>
#include <tuple>
#include <type_traits>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// -- types --------------------------------------------------------------------

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1)
    : x(width), y(height), z(depth) {}
};
struct __attribute__((aligned(8))) float2 {
  float x, y;
};
struct __attribute__((aligned(16))) float4 {
  float x, y, z, w;
};
struct __attribute__((aligned(16))) double2 {
  double x, y;
};
struct __attribute__((aligned(8))) uint2 {
  unsigned x, y;
};
struct __attribute__((aligned(16))) uint4 {
  unsigned x, y, z, w;
};

// -- the host's API -----------------------------------------------------------

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorMisalignedAddress = 716,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaHostRegisterPortable = 1;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

extern "C" {
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceReset();
/// As of a GPU of the generation of 9.0.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr asked,
                                          int) {
  switch (asked) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
}

// -- what translate.py writes calls of ----------------------------------------

namespace cuda_stand_in {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// Arguments are copied as bytes, as a launch does; `address` tells kernels
/// apart, null where its template arguments are deduced.
void submit(const char* name, const void* address, const Configuration& how,
            void (*run)(const void*), const void* arguments, size_t bytes);

cudaError_t set_max_shared(const void* kernel, int bytes);

template <class Body, class... Args>
void launch(const char* name, const void* address, const Configuration& how,
            Body, const Args&... arguments) {
  static_assert((std::is_trivially_copyable_v<Args> && ...));
  using Kept = std::tuple<std::decay_t<Args>...>;
  const Kept kept(arguments...);
  submit(
    name, address, how,
    [](const void* at) { std::apply(Body{}, *static_cast<const Kept*>(at)); },
    &kept, sizeof kept);
}

// Constant for as long as one thread of a kernel runs.
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((const));
dim3 block_size() __attribute__((const));
dim3 grid_size() __attribute__((const));

void* shared_memory(const void* declaration, size_t bytes, size_t alignment);
void* dynamic_shared_memory();
size_t shared_offset(const void* at);

/// One __shared__ declaration of the block that runs.
template <class T, size_t Alignment>
T& shared(const void* declaration) {
  constexpr auto alignment = Alignment > alignof(T) ? Alignment : alignof(T);
  return *static_cast<T*>(shared_memory(declaration, sizeof(T), alignment));
}

unsigned lane_index();
/// Of each value of up to 8 bytes that the lanes give, that of lane `from`.
uint64_t shuffle_bits(unsigned mask, uint64_t own, unsigned from,
                      const char* file, int line);

template <class T>
T shuffle(unsigned mask, T x, unsigned from, const char* file, int line) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof x);
  bits = shuffle_bits(mask, bits, from, file, line);
  memcpy(&x, &bits, sizeof x);
  return x;
}

unsigned vote(unsigned mask, bool yes, const char* file, int line);
void load_matrices(unsigned (&to)[4], unsigned row, bool transposed,
                   const char* file, int line);
void multiply_add(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  const char* file, int line);
/// Copies when the lane waits: `given` bytes, and zeros. Until then all ones
/// are there.
void copy_async(unsigned to, const void* from, unsigned bytes, unsigned given);
void wait_for_copies();

} // namespace cuda_stand_in

#define threadIdx (::cuda_stand_in::thread_index())
#define blockIdx (::cuda_stand_in::block_index())
#define blockDim (::cuda_stand_in::block_size())
#define gridDim (::cuda_stand_in::grid_size())

template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute, int value) {
  return ::cuda_stand_in::set_max_shared(reinterpret_cast<const void*>(kernel),
                                         value);
}

// -- what a kernel calls ------------------------------------------------------

#define CUDA_STAND_IN_SITE \
  const char *file = __builtin_FILE(), int line = __builtin_LINE()

void __syncthreads(CUDA_STAND_IN_SITE);

template <class T>
T __shfl_sync(unsigned mask, T x, unsigned from, CUDA_STAND_IN_SITE) {
  return ::cuda_stand_in::shuffle(mask, x, from, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, unsigned apart, CUDA_STAND_IN_SITE) {
  return ::cuda_stand_in::shuffle(
    mask, x, ::cuda_stand_in::lane_index() ^ apart, file, line);
}
inline unsigned __ballot_sync(unsigned mask, bool yes, CUDA_STAND_IN_SITE) {
  return ::cuda_stand_in::vote(mask, yes, file, line);
}

inline size_t __cvta_generic_to_shared(const void* at) {
  return ::cuda_stand_in::shared_offset(at);
}

/// Not instrumented: atomics race with nothing.
__attribute__((no_sanitize("thread"), noinline)) inline unsigned
atomicExch(unsigned* at, unsigned x) {
  const auto before = *at;
  *at = x;
  return before;
}

inline unsigned min(unsigned a, unsigned b) {
  return a < b ? a : b;
}

inline float __uint_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// The PTX manual's ex2 and rcp, but exact; results below FLT_MIN are zero.
inline void ex2_approx_ftz_f32(float& y, float x) {
  y = exp2f(x);
  y = y < 0x1p-126f ? 0.0f : y;
}
inline void rcp_approx_ftz_f32(float& y, float x) {
  y = 1.0f / x;
  y = fabsf(y) < 0x1p-126f ? copysignf(0.0f, y) : y;
}

// The PTX manual's "Matrix load instruction" and "Warp-level matrix
// instructions".
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& a, unsigned& b,
                                                     unsigned& c, unsigned& d,
                                                     unsigned row,
                                                     CUDA_STAND_IN_SITE) {
  unsigned to[4];
  ::cuda_stand_in::load_matrices(to, row, false, file, line);
  a = to[0], b = to[1], c = to[2], d = to[3];
}
inline void
ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& a, unsigned& b,
                                               unsigned& c, unsigned& d,
                                               unsigned row,
                                               CUDA_STAND_IN_SITE) {
  unsigned to[4];
  ::cuda_stand_in::load_matrices(to, row, true, file, line);
  a = to[0], b = to[1], c = to[2], d = to[3];
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(
  float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1,
  unsigned a2, unsigned a3, unsigned b0, unsigned b1, CUDA_STAND_IN_SITE) {
  float c[4] = {c0, c1, c2, c3};
  ::cuda_stand_in::multiply_add(c, {a0, a1, a2, a3}, {b0, b1}, file, line);
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
}
inline void cp_async_cg_shared_global(unsigned to, const void* from,
                                      unsigned given) {
  ::cuda_stand_in::copy_async(to, from, 16, given);
}
inline void cp_async_ca_shared_global(unsigned to, const void* from,
                                      unsigned size, unsigned given) {
  ::cuda_stand_in::copy_async(to, from, size, given);
}
inline void cp_async_wait_all() {
  ::cuda_stand_in::wait_for_copies();
}

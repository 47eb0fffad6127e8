#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/replica.hpp"
#include "kernels/cuda/status.cuh"
#include "kernels/error.hpp"
#include "kernels/require.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe {

uint32_t cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError(); // no driver or no GPU: not an error of later calls
    return 0;
  }
  return static_cast<uint32_t>(count);
}

namespace kernels {

namespace {

/// A stream with its cuBLAS handle. Its own workspace: with a shared one,
/// cuBLAS may pick other algorithms, and so other bits, in other calls.
class CudaStream {
public:
  explicit CudaStream(const CudaPlace& place)
    : workspace_(CudaArray<char>::Where::device, workspace_bytes, place) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), place);
    try {
      check(blas().create(&blas_), place);
      check(blas().set_stream(blas_, stream_), place);
      check(blas().set_workspace(blas_, workspace_.data(), workspace_bytes),
            place);
      check(blas().set_math_mode(blas_, CUBLAS_PEDANTIC_MATH), place);
      check(blas().set_atomics_mode(blas_, CUBLAS_ATOMICS_NOT_ALLOWED), place);
    } catch (...) {
      release();
      throw;
    }
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { release(); }

  cudaStream_t get() const { return stream_; }
  cublasHandle_t blas_handle() const { return blas_; }

private:
  static constexpr size_t workspace_bytes = size_t{32} << 20;

  void release() {
    if (blas_ != nullptr)
      blas().destroy(blas_);
    cudaStreamDestroy(stream_);
  }

  CudaArray<char> workspace_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

/// Makes a device current for the time of a call, whatever thread calls.
class CurrentDevice {
public:
  explicit CurrentDevice(uint32_t index) {
    CudaPlace place{index, "choosing the device"};
    check(cudaGetDevice(&kept_), place);
    check(cudaSetDevice(static_cast<int>(index)), place);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(kept_); }

private:
  int kept_ = 0;
};

} // namespace

std::unique_ptr<Replica> make_cuda_replica(const Graph&, uint32_t index,
                                           uint32_t, Precision) {
  auto count = cuda_device_count();
  if (index >= count)
    throw InputError(
      "cuda:" + std::to_string(index) + ": "
      + (count == 0 ? std::string("no usable GPU or driver was found")
                    : "the machine has GPUs 0 to " + std::to_string(count - 1))
      + "; choose another device, e.g. cpu:1");
  throw InputError("cuda:" + std::to_string(index) + ": not available yet");
}

std::unique_ptr<Device> make_cuda_device(uint32_t index, Precision) {
  throw InputError("cuda:" + std::to_string(index) + ": not available yet");
}

std::string cuda_versions() {
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return "CUDA of unknown version";
  auto text = "CUDA " + std::to_string(runtime / 1000) + "."
              + std::to_string(runtime % 1000 / 10);
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (cuda_device_count() > 0 // else cuBLAS takes part in nothing
      && blas().get_property(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS
      && blas().get_property(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS
      && blas().get_property(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS)
    text += ", cuBLAS " + std::to_string(major) + "." + std::to_string(minor)
            + "." + std::to_string(patch);
  return text;
}

} // namespace kernels

} // namespace troupe

#include "kernels/cuda/context.cuh"

#include "kernels/base/error.hpp"
#include "kernels/cuda/dnn.cuh"
#include "kernels/cuda/matmul.cuh"

namespace troupe {

uint32_t cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError(); // no driver or no GPU: not an error of later calls
    return 0;
  }
  return static_cast<uint32_t>(count);
}

std::string why_no_cuda() {
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0)
    return {};
  cudaGetLastError();
  const std::string none = "no usable GPU: ";
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return none + "NVIDIA's driver is not installed";
  if (status == cudaErrorInsufficientDriver
      && cudaRuntimeGetVersion(&runtime) == cudaSuccess)
    return none + "NVIDIA's driver is one of CUDA "
           + kernels::cuda_version(driver) + ", and this build wants CUDA "
           + kernels::cuda_version(runtime);
  return none
         + (status == cudaSuccess ? "the driver shows none"
                                  : cudaGetErrorString(status));
}

namespace kernels {

namespace {

void refuse_missing(DeviceId device) {
  const auto count = cuda_device_count();
  if (device.index < count)
    return;
  throw InputError(
    to_string(device) + ": "
    + (count == 0 ? why_no_cuda()
                  : "the machine has GPUs 0 to " + std::to_string(count - 1))
    + "; choose another device, e.g. cpu:1");
}

} // namespace

CudaContext::CudaContext(DeviceId device, Precision precision)
  : device_(device), name_(to_string(device)), precision_(precision) {
  refuse_missing(device);
  const CurrentDevice current(device.index);
  workspace_ = CudaArray<char>(CudaArray<char>::Where::device, workspace_bytes,
                               place("workspace"));
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
        place("stream"));
}

CudaContext::~CudaContext() {
  // Whatever still runs may use memory that is about to go.
  cudaStreamSynchronize(stream_);
  dnn_.reset();
  matmul_.reset();
  cudaStreamDestroy(stream_);
}

CudaMatmul& CudaContext::matmul() {
  if (!matmul_)
    matmul_ = std::make_unique<CudaMatmul>(*this);
  return *matmul_;
}

CudaDnn& CudaContext::dnn() {
  if (!dnn_)
    dnn_ = std::make_unique<CudaDnn>(*this);
  return *dnn_;
}

void CudaContext::synchronize(const std::string& what) {
  check(cudaStreamSynchronize(stream_), place(what));
}

} // namespace kernels

} // namespace troupe

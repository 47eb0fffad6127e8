#pragma once

// Headers named .cuh are for the files of this folder alone: CUDA types stay
// out of the room's other headers.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::kernels {

/// Says where a call belongs, for its error: "cuda:0: dense_1 forward: …".
struct CudaPlace {
  std::string device;
  std::string op;
};

/// Ends a call that the device refused.
/// Errors: std::runtime_error "DEVICE: OPERATOR: WHAT", always.
[[noreturn]] void fail(const CudaPlace& place, const std::string& what);

/// Errors: std::runtime_error naming device and operator for any status but
/// success.
inline void check(cudaError_t status, const CudaPlace& place) {
  if (status != cudaSuccess) [[unlikely]]
    fail(place, cudaGetErrorString(status));
}

/// "13.0" of CUDA's number of a version.
std::string cuda_version(int number);

/// Reserves memory of the current device.
/// Errors: std::runtime_error that says how much was asked for and how much
/// there is.
void* allocate_on_device(size_t bytes, const CudaPlace& place);

/// A run of values on the current device, or pinned on the host; not
/// initialised. Owner: the one who made it.
template <class T>
class CudaArray {
public:
  enum class Where { device, pinned };

  CudaArray() = default;
  CudaArray(Where where, size_t count, const CudaPlace& place) : where_(where) {
    if (count == 0)
      return;
    void* values = nullptr;
    if (where == Where::device)
      values = allocate_on_device(count * sizeof(T), place);
    else
      check(cudaMallocHost(&values, count * sizeof(T)), place);
    data_ = static_cast<T*>(values);
  }
  CudaArray(CudaArray&& other) noexcept
    : where_(other.where_), data_(other.data_) {
    other.data_ = nullptr;
  }
  CudaArray& operator=(CudaArray&& other) noexcept {
    auto* data = data_;
    data_ = other.data_;
    other.data_ = data;
    auto where = where_;
    where_ = other.where_;
    other.where_ = where;
    return *this;
  }
  ~CudaArray() {
    // A status here is that of an earlier failure, reported by then.
    if (data_ != nullptr)
      where_ == Where::device ? cudaFree(data_) : cudaFreeHost(data_);
  }

  T* data() { return data_; }

private:
  Where where_ = Where::device;
  T* data_ = nullptr;
};

/// Makes a device current for the time of a call, whatever thread calls.
class CurrentDevice {
public:
  explicit CurrentDevice(uint32_t index) {
    const CudaPlace place{"cuda:" + std::to_string(index),
                          "choosing the device"};
    check(cudaGetDevice(&kept_), place);
    check(cudaSetDevice(static_cast<int>(index)), place);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(kept_); }

private:
  int kept_ = 0;
};

/// The same where things end. A status is that of an earlier failure, which was
/// said by then.
class LeavingDevice {
public:
  explicit LeavingDevice(uint32_t index)
    : knows_(cudaGetDevice(&kept_) == cudaSuccess) {
    cudaSetDevice(static_cast<int>(index)); // else another GPU would be opened
  }
  LeavingDevice(const LeavingDevice&) = delete;
  LeavingDevice& operator=(const LeavingDevice&) = delete;
  ~LeavingDevice() {
    if (knows_)
      cudaSetDevice(kept_);
    cudaGetLastError();
  }

private:
  int kept_ = 0;
  bool knows_;
};

} // namespace troupe::kernels

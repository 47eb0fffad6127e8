#pragma once

// For the .cu files of this folder alone: CUDA types stay out of the room's
// other headers.

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <string>

namespace troupe::kernels {

/// Says where a call belongs, for its error: "cuda:0: dense_1 forward: …".
struct CudaPlace {
  uint32_t device;
  std::string op;
};

/// Errors: std::runtime_error naming device and operator for any status but
/// success.
void check(cudaError_t status, const CudaPlace& place);
void check(cublasStatus_t status, const CudaPlace& place);

/// A run of values on the current device, or pinned on the host; not
/// initialised. Owner: the one who made it.
template <class T>
class CudaArray {
public:
  enum class Where { device, pinned };

  CudaArray() = default;
  CudaArray(Where where, size_t count, const CudaPlace& place) : where_(where) {
    void* values = nullptr;
    auto bytes = count * sizeof(T);
    check(where == Where::device ? cudaMalloc(&values, bytes)
                                 : cudaMallocHost(&values, bytes),
          place);
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

} // namespace troupe::kernels

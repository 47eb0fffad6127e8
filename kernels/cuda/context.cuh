#pragma once

#include "kernels/cuda/status.cuh"
#include "kernels/engine/replica.hpp"

#include <memory>
#include <string>

namespace troupe::kernels {

class CudaMatmul;
class CudaDnn;

/// What the operators of one device share: a stream, that everything goes to in
/// order, and the libraries' handles. Virtual devices of one GPU have one each.
class CudaContext {
public:
  /// Errors: InputError when the GPU is not there.
  CudaContext(DeviceId device, Precision precision);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  uint32_t index() const { return device_.index; }
  const std::string& name() const { return name_; }
  Precision precision() const { return precision_; }
  cudaStream_t stream() const { return stream_; }
  CudaPlace place(std::string op) const { return {name_, std::move(op)}; }

  /// Of cuBLASLt and cuDNN, by turns: their calls follow one another.
  static constexpr size_t workspace_bytes = size_t{64} << 20;
  void* workspace() { return workspace_.data(); }

  CudaMatmul& matmul();
  CudaDnn& dnn(); ///< loads cuDNN at the first call

  void synchronize(const std::string& what);

private:
  DeviceId device_;
  std::string name_;
  Precision precision_;
  cudaStream_t stream_ = nullptr;
  CudaArray<char> workspace_;
  std::unique_ptr<CudaMatmul> matmul_;
  std::unique_ptr<CudaDnn> dnn_;
};

} // namespace troupe::kernels

#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/cuda/matmul.cuh"

#include <compare>
#include <map>
#include <memory>
#include <string>

namespace troupe::kernels {

enum class ConvolutionPass : uint8_t {
  forward,
  input_gradient,
  weight_gradient
};

/// "cuDNN 9.10.2"; "no cuDNN" where it cannot be loaded.
std::string dnn_version();

/// Images are [rows, height, width, channels]; weights [units, kernel, kernel,
/// channels / groups], which is the library's order for such images and not the
/// graph's.
struct ConvolutionShape {
  ConvolutionPass pass = ConvolutionPass::forward;
  CudaElement element = CudaElement::float32; ///< of all operands
  int64_t rows = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t high = 0; ///< of the output
  int64_t wide = 0;
  int64_t units = 0;
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;

  auto operator<=>(const ConvolutionShape&) const = default;
};

/// cuDNN's graphs of one operation, for one context. Engines that add in no
/// fixed order are left out, and for float32 those that round what they read or
/// change the sums (TF32, Winograd, FFT).
class CudaDnn {
public:
  /// Errors: InputError that says where cuDNN was looked for.
  explicit CudaDnn(CudaContext& context);
  CudaDnn(const CudaDnn&) = delete;
  CudaDnn& operator=(const CudaDnn&) = delete;
  ~CudaDnn();

  /// Tells whether the library has an engine for it.
  bool has(const ConvolutionShape& shape, const std::string& op);

  /// Of the three operands the pass writes one: y, x (its gradient) or w.
  /// Completion: stream order.
  void run(const ConvolutionShape& shape, const void* x, const void* w,
           const void* y, const std::string& op);

private:
  struct Library;
  struct Plan;
  const Plan& plan_of(const ConvolutionShape& shape, const std::string& op);

  CudaContext& context_;
  std::unique_ptr<Library> library_;
  std::map<ConvolutionShape, Plan> plans_;
};

} // namespace troupe::kernels

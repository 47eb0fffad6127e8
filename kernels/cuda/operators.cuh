#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/engine/operator.hpp"
#include "kernels/graph/graph.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::kernels {

/// What a CUDA operator is made from. The graph lives longer.
struct CudaOpSite {
  const Graph& graph;
  size_t index; ///< of the operator
  uint32_t max_rows;
  CudaContext& context;
  const std::vector<uint8_t>& half_values;

  const Op& op() const { return graph.ops[index]; }
  const Shape& input(size_t i) const {
    return graph.values[op().inputs[i]].shape;
  }
  const Shape& output() const { return graph.values[op().output].shape; }
  /// The value and its gradient are kept in bfloat16.
  bool half_input(size_t i) const { return half_values[op().inputs[i]] != 0; }
  bool half_output() const { return half_values[op().output] != 0; }
};

/// Which values a graph keeps in bfloat16 (with --precision bfloat16): those
/// that pass from one operator that writes it to one that multiplies matrices
/// or to the loss of a softmax, or that turns or gates them on their way to
/// such a one. Their slots in the plan of buffers keep the size of float32.
std::vector<uint8_t> half_values(const Graph& graph, Precision precision);

using OperatorPtr = std::unique_ptr<Operator>;

/// What the operators of this folder begin with.
class CudaOperator : public Operator {
public:
  explicit CudaOperator(const CudaOpSite& site)
    : context_(site.context), name_(site.op().name) {}

protected:
  cudaStream_t stream() const { return context_.stream(); }
  /// After a launch.
  void launched() const { check(cudaGetLastError(), context_.place(name_)); }

  CudaContext& context_;
  std::string name_;
};

// One source file a family. No float atomics anywhere: each sum has one order,
// fixed by the shapes.
OperatorPtr make_cuda_dense(const CudaOpSite& site);       // dense.cpp
OperatorPtr make_cuda_convolution(const CudaOpSite& site); // convolution.cpp
OperatorPtr make_cuda_pool(const CudaOpSite& site);        // pool.cu
OperatorPtr make_cuda_batch_norm(const CudaOpSite& site);  // batch_norm.cu
OperatorPtr make_cuda_layer_norm(const CudaOpSite& site);  // layer_norm.cu
OperatorPtr make_cuda_elementwise(const CudaOpSite& site); // elementwise.cu
OperatorPtr make_cuda_softmax(const CudaOpSite& site);     // softmax.cu
OperatorPtr make_cuda_loss(const CudaOpSite& site);        // loss.cu
OperatorPtr make_cuda_movement(const CudaOpSite& site);    // movement.cu
OperatorPtr make_cuda_embedding(const CudaOpSite& site);   // embedding.cu
OperatorPtr make_cuda_attention(const CudaOpSite& site);   // attention.cu
OperatorPtr make_cuda_rotary(const CudaOpSite& site);      // rotary.cu
OperatorPtr make_cuda_interaction(const CudaOpSite& site); // interaction.cu

OperatorPtr make_cuda_operator(const CudaOpSite& site);

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"

#include <memory>

namespace troupe::kernels {

/// What a CPU operator is made from. The graph lives longer.
struct CpuOpSite {
  const Graph& graph;
  const Op& op;
  uint32_t max_rows;
  Precision precision;

  const Shape& input(size_t i) const {
    return graph.values[op.inputs[i]].shape;
  }
  const Shape& output() const { return graph.values[op.output].shape; }
  const Parameter& parameter(size_t i) const {
    return graph.parameters[op.parameters[i]];
  }
};

using OperatorPtr = std::unique_ptr<Operator>;

// One source file a family. Single-threaded: a device with several threads runs
// several micro-batches at once.
OperatorPtr make_dense(const CpuOpSite& site);       // dense.cpp
OperatorPtr make_convolution(const CpuOpSite& site); // convolution.cpp
OperatorPtr make_pool(const CpuOpSite& site);        // pool.cpp
OperatorPtr make_batch_norm(const CpuOpSite& site);  // batch_norm.cpp
OperatorPtr make_layer_norm(const CpuOpSite& site);  // layer_norm.cpp
OperatorPtr make_elementwise(const CpuOpSite& site); // elementwise.cpp:
                                                     // activation, add,
                                                     // multiply, bias,
                                                     // dropout, swiglu
OperatorPtr make_softmax(const CpuOpSite& site);     // softmax.cpp
OperatorPtr make_loss(const CpuOpSite& site);        // loss.cpp
OperatorPtr make_movement(const CpuOpSite& site);    // movement.cpp: concat,
                                                     // slice, reshape,
                                                     // transpose
OperatorPtr make_embedding(const CpuOpSite& site);   // embedding.cpp
OperatorPtr make_attention(const CpuOpSite& site);   // attention.cpp
OperatorPtr make_rotary(const CpuOpSite& site);      // rotary.cpp
OperatorPtr make_interaction(const CpuOpSite& site); // interaction.cpp:
                                                     // interaction,
                                                     // factorization

OperatorPtr make_cpu_operator(const CpuOpSite& site);

} // namespace troupe::kernels

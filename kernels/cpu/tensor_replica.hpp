#pragma once

#include "kernels/engine/tensor_replica.hpp"

namespace troupe::kernels {

std::unique_ptr<TensorReplica> make_cpu_tensor_replica(TensorPart part,
                                                       uint32_t max_rows,
                                                       Precision precision);

} // namespace troupe::kernels

#pragma once

#include "kernels/replica.hpp"

#include <string>

namespace troupe::kernels {

/// Errors: InputError when the build has no CUDA, or the machine no such GPU.
std::unique_ptr<Replica> make_cuda_replica(const Graph& graph, uint32_t index,
                                           uint32_t max_rows,
                                           Precision precision);

/// Versions of CUDA's libraries; empty without CUDA.
std::string cuda_versions();

} // namespace troupe::kernels

#pragma once

#include "kernels/engine/replica.hpp"

namespace troupe::kernels {

std::unique_ptr<Replica> make_cpu_replica(const Graph& graph, uint32_t max_rows,
                                          Precision precision);

} // namespace troupe::kernels

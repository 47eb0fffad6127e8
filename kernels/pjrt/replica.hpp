#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/optimizer/resident_replica.hpp"

#include <memory>

namespace troupe::kernels {

/// Errors: InputError for a file that is no plugin, a device that it does not
/// have, and an operator that is not written as StableHLO.
std::unique_ptr<Replica> make_pjrt_replica(const Graph& graph, DeviceId device,
                                           uint32_t max_rows,
                                           Precision precision);

/// Errors: likewise.
std::unique_ptr<ResidentReplica>
make_pjrt_resident_replica(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision);

/// The client that all replicas on the plugin's devices share.
/// Errors: likewise.
std::shared_ptr<void> open_pjrt_device(DeviceId device);

/// What the sums of a device follow: its platform and version, and what
/// compiles.
/// Errors: likewise.
std::string pjrt_numeric_class(DeviceId device, Precision precision);

} // namespace troupe::kernels

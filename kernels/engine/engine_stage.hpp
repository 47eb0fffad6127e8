#pragma once

#include "kernels/engine/stage_device.hpp"
#include "kernels/engine/stage_replica.hpp"

#include <memory>

namespace troupe::kernels {

/// Makes a part of a graph that an engine runs on a device.
std::unique_ptr<StageReplica>
make_engine_stage(const Graph& graph, GraphPart part, const StageOptions& given,
                  std::unique_ptr<StageDevice> device);

/// What memory_bytes() of such parts would be.
std::unique_ptr<PartMemory>
make_engine_part_memory(const Graph& graph, const StageOptions& options,
                        std::unique_ptr<Device> device);

} // namespace troupe::kernels

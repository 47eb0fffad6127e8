#pragma once

#include "kernels/cuda/resident.hpp"
#include "kernels/engine/device.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/engine/stage_replica.hpp"

#include <string>

namespace troupe::kernels {

struct CudaOptions {
  /// Replay passes as CUDA graphs; the bits are the same without.
  bool graphs = true;
};

/// Errors: InputError when the build has no CUDA, or the machine no such GPU.
std::unique_ptr<Replica>
make_cuda_replica(const Graph& graph, DeviceId device, uint32_t max_rows,
                  Precision precision, CudaOptions options = {});

/// Errors: likewise.
std::unique_ptr<ResidentTrainer>
make_cuda_resident_trainer(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision);

/// Errors: likewise.
std::unique_ptr<ResidentReplica>
make_cuda_resident_replica(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision);

/// Errors: likewise.
std::unique_ptr<Device> make_cuda_device(DeviceId device, Precision precision);

/// Errors: likewise.
StageReplicas
make_cuda_stage_replicas(const Graph& graph,
                         const std::vector<GraphPart>& parts, DeviceId device,
                         const std::vector<StageOptions>& options);

/// Versions of CUDA's libraries, cuDNN's where it takes part; empty without
/// CUDA.
std::string cuda_versions(bool with_dnn = false);

/// What a GPU is, as far as libraries choose their algorithms by it: "sm_90,
/// 132 multiprocessors"; empty for one that is not there.
std::string cuda_kind(uint32_t index);

} // namespace troupe::kernels

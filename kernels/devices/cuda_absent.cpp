#include "kernels/base/error.hpp"
#include "kernels/cuda/nccl_reducer.hpp"
#include "kernels/cuda/replica.hpp"

// Stands in for kernels/cuda/ in a build without CUDA.

namespace troupe {

uint32_t cuda_device_count() {
  return 0;
}

std::string why_no_cuda() {
  return "this build has no CUDA (apps/quickstart --cuda makes one that has, "
         "where a toolkit is)";
}

namespace kernels {

namespace {

[[noreturn]] void refuse(DeviceId device) {
  throw InputError(to_string(device) + ": " + why_no_cuda() + "; use cpu:N");
}

} // namespace

std::unique_ptr<Replica> make_cuda_replica(const Graph&, DeviceId device,
                                           uint32_t, Precision, CudaOptions) {
  refuse(device);
}

std::unique_ptr<ResidentTrainer>
make_cuda_resident_trainer(const Graph&, DeviceId device,
                           const OptimizerOptions&, uint32_t, Precision) {
  refuse(device);
}

std::unique_ptr<ResidentReplica>
make_cuda_resident_replica(const Graph&, DeviceId device,
                           const OptimizerOptions&, uint32_t, Precision) {
  refuse(device);
}

std::unique_ptr<Device> make_cuda_device(DeviceId device, Precision) {
  refuse(device);
}

StageReplicas
make_cuda_stage_replicas(const Graph&, const std::vector<GraphPart>&,
                         DeviceId device, const std::vector<StageOptions>&) {
  refuse(device);
}

std::string cuda_kind(uint32_t) {
  return {};
}

std::string cuda_versions(bool) {
  return {};
}

std::string nccl_version() {
  throw InputError("this build has no CUDA, so it has no use for NCCL");
}

std::shared_ptr<float> make_device_array(DeviceId device, uint64_t) {
  refuse(device);
}

std::unique_ptr<Reducer> make_nccl_reducer(ReducerLayout, DeviceId device,
                                           std::unique_ptr<Reducer>, bool) {
  refuse(device);
}

} // namespace kernels

} // namespace troupe

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/onednn_pin.hpp"
#include "kernels/cpu/replica.hpp"
#include "kernels/cpu/stage_replica.hpp"
#include "kernels/cuda/replica.hpp"
#include "kernels/devices/sleeping_layers.hpp"
#include "kernels/devices/sleeping_replica.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/optimizer/resident_replica.hpp"
#include "kernels/pjrt/replica.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

namespace troupe {

Precision precision_named(const std::string& name) {
  return name == "bfloat16" ? Precision::bfloat16 : Precision::float32;
}

DeviceId pjrt_device(const std::string& file, uint32_t index, uint32_t count) {
  static std::mutex mutex;
  static std::set<std::string> files;
  std::lock_guard lock{mutex};
  return {DeviceId::Kind::pjrt, index, 0, &*files.insert(file).first, count};
}

std::string to_string(DeviceId device) {
  if (device.kind == DeviceId::Kind::pjrt)
    return "pjrt:" + *device.file + ":" + std::to_string(device.index)
           + (device.count > 1
                ? "-" + std::to_string(device.index + device.count - 1)
                : "");
  auto kind = device.kind == DeviceId::Kind::cpu ? "cpu:" : "cuda:";
  auto slot = device.slot == 0 ? "" : "." + std::to_string(device.slot);
  return kind + std::to_string(device.index) + slot;
}

std::vector<LeafStats> Replica::gradient(const float*, const Batch&,
                                         StackedLeaves, float*,
                                         const ParameterReady&) {
  kernels::require(false,
                   "leaves stacked on a device that takes one at a time");
  return {};
}

/// From some 256 rows on products are as fast as they get.
uint32_t stacked_rows(const Graph& graph, DeviceId device) {
  constexpr uint32_t enough = 256;
  const bool possible = device.kind == DeviceId::Kind::cpu
                        && !sleep_model(graph.text) && stacks(graph);
  return possible ? enough : 0;
}

std::unique_ptr<Replica> make_replica(const Graph& graph, DeviceId device,
                                      uint32_t max_rows, Precision precision) {
  if (const auto sleep = sleep_model(graph.text))
    return sleep->layers.empty() ? kernels::make_sleeping_replica(graph, *sleep)
                                 : kernels::make_sleeping_layers(graph, *sleep);
  if (device.kind == DeviceId::Kind::cuda)
    return kernels::make_cuda_replica(graph, device, max_rows, precision);
  if (device.kind == DeviceId::Kind::pjrt)
    return kernels::make_pjrt_replica(graph, device, max_rows, precision);
  return kernels::make_cpu_replica(graph, max_rows, precision);
}

std::shared_ptr<void> open_device(DeviceId device) {
  return device.kind == DeviceId::Kind::pjrt ? kernels::open_pjrt_device(device)
                                             : nullptr;
}

bool updates_as_the_host(const Graph& graph, DeviceId device) {
  return device.kind == DeviceId::Kind::cuda && !sleep_model(graph.text);
}

bool keeps_variables(const Graph& graph, DeviceId device,
                     const OptimizerOptions& rule) {
  if (sleep_model(graph.text) || device.kind == DeviceId::Kind::cpu)
    return false;
  // A plugin's programs take a trust ratio of each parameter, and a layer's is
  // one for all of its pieces.
  return device.kind != DeviceId::Kind::pjrt || rule.kind != OptimizerKind::lamb
         || graph.pieces.empty();
}

std::unique_ptr<ResidentReplica>
make_resident_replica(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision) {
  if (!keeps_variables(graph, device, rule))
    return nullptr;
  return device.kind == DeviceId::Kind::pjrt
           ? kernels::make_pjrt_resident_replica(graph, device, rule, max_rows,
                                                 precision)
           : kernels::make_cuda_resident_replica(graph, device, rule, max_rows,
                                                 precision);
}

StageReplicas
make_stage_replicas(const Graph& graph, const std::vector<GraphPart>& parts,
                    DeviceId device, const std::vector<StageOptions>& options) {
  const auto sleep = sleep_model(graph.text);
  if (!sleep && device.kind == DeviceId::Kind::pjrt)
    throw InputError(to_string(device)
                     + " computes no stages of a graph yet; use cpu:0 or "
                       "cuda:0");
  if (!sleep && device.kind == DeviceId::Kind::cuda)
    return kernels::make_cuda_stage_replicas(graph, parts, device, options);
  StageReplicas made;
  for (size_t i = 0; i < parts.size(); ++i)
    made.push_back(
      sleep ? kernels::make_sleeping_stage(graph, parts[i], *sleep, options[i])
            : kernels::make_cpu_stage_replica(graph, parts[i], options[i]));
  return made;
}

std::unique_ptr<StageReplica>
make_stage_replica(const Graph& graph, GraphPart part, DeviceId device,
                   const StageOptions& options) {
  auto made = make_stage_replicas(graph, {std::move(part)}, device, {options});
  return std::move(made.front());
}

namespace {

/// Layers that wait have no activations.
class NoActivations final : public PartMemory {
public:
  uint64_t bytes(const GraphPart&, const StageOptions&) override { return 0; }
};

} // namespace

std::unique_ptr<PartMemory> make_part_memory(const Graph& graph,
                                             const StageOptions& options) {
  if (sleep_model(graph.text))
    return std::make_unique<NoActivations>();
  return kernels::make_cpu_part_memory(graph, options);
}

uint64_t stage_memory_bytes(const Graph& graph, const GraphPart& part,
                            const StageOptions& options) {
  return make_part_memory(graph, options)->bytes(part, options);
}

namespace kernels {

std::unique_ptr<Device> make_device(DeviceId device, Precision precision) {
  if (device.kind == DeviceId::Kind::cuda)
    return make_cuda_device(device, precision);
  if (device.kind == DeviceId::Kind::pjrt)
    throw InputError(to_string(device)
                     + " takes whole programs, no operator alone; use cpu:0");
  return make_cpu_device(precision);
}

} // namespace kernels

namespace {

bool convolves(const Graph& graph) {
  return std::ranges::any_of(graph.ops, [](const Op& op) {
    return op.kind == OpKind::conv2d;
  });
}

} // namespace

std::string numeric_class(DeviceId device, Precision precision,
                          const Graph* graph) {
  const bool rounded = precision == Precision::bfloat16;
  if (device.kind == DeviceId::Kind::cuda) {
    const auto kind = kernels::cuda_kind(device.index);
    return std::string{"CUDA "} + (rounded ? "bfloat16" : "float32") + " ("
           + kernels::cuda_versions(graph != nullptr && convolves(*graph))
           + (kind.empty() ? "" : ", " + kind) + ')';
  }
  if (device.kind == DeviceId::Kind::pjrt)
    return kernels::pjrt_numeric_class(device, precision);
  const auto isa = kernels::selected_isa();
  if (rounded) // sums and rounding are oneDNN's
    return std::string{"bfloat16 ("} + kernels::name_of(isa) + ", "
           + kernels::onednn_version() + ')';
  return kernels::fuses(isa) ? "FMA float32" : "SSE float32";
}

std::string library_versions() {
  auto result = kernels::onednn_version();
  if (auto cuda = kernels::cuda_versions(); !cuda.empty())
    result += (result.empty() ? "" : ", ") + cuda;
  return result.empty() ? "none that computes" : result;
}

} // namespace troupe

#include "kernels/cuda/variables.cuh"

#include "kernels/graph/virtual_slices.hpp"
#include "kernels/optimizer/norms.hpp"
#include "kernels/optimizer/terms.hpp"

#include <algorithm>
#include <vector>

namespace troupe::kernels {

namespace {

std::vector<cuda::UpdateRun> runs_of(const Graph& graph, const Layout& layout) {
  std::vector<cuda::UpdateRun> runs;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const auto& parameter = graph.parameters[i];
    using Kind = cuda::UpdateRun::Kind;
    const auto kind = parameter.role == ParameterRole::statistic
                        ? Kind::statistic
                      : parameter.decays ? Kind::decayed
                                         : Kind::undecayed;
    const auto layer = whole_of(graph, static_cast<uint32_t>(i));
    for (uint64_t begin = 0; begin < parameter.size();
         begin += cuda::update_run)
      runs.push_back({layout.offsets[i] + begin,
                      static_cast<uint32_t>(std::min<uint64_t>(
                        cuda::update_run, parameter.size() - begin)),
                      kind, parameter.by_rows, parameter.momentum, layer});
  }
  return runs;
}

/// The blocks whose squares make norms, and how they are added: to the
/// gradient's, and to those of LAMB's layers.
struct Norms {
  std::vector<cuda::SquareBlock> blocks;
  std::vector<cuda::SquareTree> trees;
  std::vector<cuda::SquareTree> pieces;
  std::vector<cuda::RatioLayer> layers; ///< of each whole parameter

  Norms(const Graph& graph, const Layout& layout) {
    std::vector<cuda::SquareTree> of_parameters(graph.parameters.size());
    for (auto i : order_by_name(graph)) {
      const auto& parameter = graph.parameters[i];
      const auto size = parameter.size();
      of_parameters[i] = {static_cast<uint32_t>(blocks.size()),
                          static_cast<uint32_t>(norm_blocks(size))};
      trees.push_back(of_parameters[i]);
      for (uint64_t begin = 0; begin < size; begin += norm_block)
        blocks.push_back(
          {layout.offsets[i] + begin,
           static_cast<uint32_t>(std::min<uint64_t>(norm_block, size - begin)),
           parameter.decays, parameter.by_rows});
    }
    for (uint32_t whole = 0; whole < whole_parameters(graph).size(); ++whole) {
      const auto first = static_cast<uint32_t>(pieces.size());
      for (auto i : pieces_of(graph, whole))
        if (graph.parameters[i].role == ParameterRole::trained)
          pieces.push_back(of_parameters[i]);
      layers.push_back({first, static_cast<uint32_t>(pieces.size()) - first});
    }
  }
};

} // namespace

template <class T>
CudaArray<T> DeviceVariables::on_device(size_t count, const char* what) {
  return {CudaArray<T>::Where::device, count, context_.place(what)};
}

template <class T>
CudaArray<T> DeviceVariables::sent(const std::vector<T>& values) {
  auto array = on_device<T>(values.size(), "update");
  check(cudaMemcpyAsync(array.data(), values.data(), values.size() * sizeof(T),
                        cudaMemcpyHostToDevice, stream()),
        place());
  return array;
}

DeviceVariables::DeviceVariables(const Graph& graph,
                                 const OptimizerOptions& rule,
                                 CudaContext& context)
  : layout_(graph),
    rule_(rule),
    context_(context),
    parameters_(on_device<float>(layout_.total, "parameters")),
    state_(on_device<float>(layout_.total * slots(), "optimizer state")),
    terms_(on_device<cuda::StepTerms>(1, "update")),
    host_terms_(CudaArray<cuda::StepTerms>::Where::pinned, 1, place()),
    scale_(on_device<float>(1, "update")),
    spoiled_(on_device<uint32_t>(1, "update")),
    host_spoiled_(CudaArray<uint32_t>::Where::pinned, 1, place()),
    found_(on_device<uint32_t>(1, "update")),
    host_found_(CudaArray<uint32_t>::Where::pinned, 1, place()) {
  const auto runs = runs_of(graph, layout_);
  const Norms norms(graph, layout_);
  const auto sums = norms.blocks.size() + norms.trees.size();
  runs_ = sent(runs);
  blocks_ = sent(norms.blocks);
  trees_ = sent(norms.trees);
  squares_ = on_device<double>(sums, "update");
  if (rule.kind == OptimizerKind::lamb) {
    pieces_ = sent(norms.pieces);
    layers_ = sent(norms.layers);
    directions_ = on_device<double>(sums, "update");
    ratios_ = on_device<float>(norms.layers.size(), "update");
  }
  update_ = {rule.kind,
             terms_.data(),
             runs_.data(),
             static_cast<uint32_t>(runs.size()),
             parameters_.data(),
             state_.data(),
             layout_.total,
             blocks_.data(),
             static_cast<uint32_t>(norms.blocks.size()),
             trees_.data(),
             static_cast<uint32_t>(norms.trees.size()),
             squares_.data(),
             pieces_.data(),
             layers_.data(),
             static_cast<uint32_t>(norms.layers.size()),
             directions_.data(),
             ratios_.data(),
             scale_.data(),
             spoiled_.data(),
             std::ranges::any_of(graph.parameters, [](const auto& parameter) {
               return parameter.role == ParameterRole::statistic;
             })};
  check(cudaMemsetAsync(spoiled_.data(), 0, sizeof(uint32_t), stream()),
        place());
  context_.synchronize("update");
  // The last, so that it is destroyed whenever it was made.
  check(cudaEventCreateWithFlags(&terms_sent_, cudaEventDisableTiming),
        place());
}

DeviceVariables::~DeviceVariables() {
  cudaStreamSynchronize(stream());
  cudaEventDestroy(terms_sent_);
}

void DeviceVariables::write(const float* parameters, const float* state,
                            uint64_t stride) {
  const auto bytes = layout_.total * sizeof(float);
  check(cudaMemcpyAsync(parameters_.data(), parameters, bytes,
                        cudaMemcpyHostToDevice, stream()),
        place());
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    auto* to = state_.data() + slot * layout_.total;
    check(state == nullptr ? cudaMemsetAsync(to, 0, bytes, stream())
                           : cudaMemcpyAsync(to, state + slot * stride, bytes,
                                             cudaMemcpyHostToDevice, stream()),
          place());
  }
  context_.synchronize("writing variables");
}

void DeviceVariables::read(float* parameters, float* state, uint64_t stride) {
  const auto bytes = layout_.total * sizeof(float);
  check(cudaMemcpyAsync(parameters, parameters_.data(), bytes,
                        cudaMemcpyDeviceToHost, stream()),
        place());
  for (uint32_t slot = 0; slot < slots() && state != nullptr; ++slot)
    check(cudaMemcpyAsync(state + slot * stride,
                          state_.data() + slot * layout_.total, bytes,
                          cudaMemcpyDeviceToHost, stream()),
          place());
  context_.synchronize("reading variables");
}

void DeviceVariables::send(const ResidentReplica::Update& update) {
  // The copy before has left the pinned memory.
  check(cudaEventSynchronize(terms_sent_), place());
  const float nothing = 0; // pointers that the terms want, and nobody follows
  UpdateArgs args;
  args.gradient_sum = args.in = args.state_in = &nothing;
  args.samples = update.samples;
  args.step = update.number;
  args.learning_rate = update.learning_rate;
  auto& terms = *host_terms_.data();
  args.decays = true;
  terms.decayed = update_terms(rule_, args);
  args.decays = false;
  terms.undecayed = update_terms(rule_, args);
  terms.samples = update.samples;
  terms.clip_norm = update.clip_norm;
  terms.sequence = ++sequence_;
  check(cudaMemcpyAsync(terms_.data(), host_terms_.data(), sizeof terms,
                        cudaMemcpyHostToDevice, stream()),
        place());
  check(cudaEventRecord(terms_sent_, stream()), place());
}

void DeviceVariables::update(const float* gradient, bool clips, bool lazy) {
  auto args = update_;
  args.gradient = gradient;
  args.clips = clips;
  args.lazy = lazy;
  cuda::update_all(args, stream());
  check(cudaGetLastError(), place());
}

bool DeviceVariables::spoiled() {
  check(cudaMemcpyAsync(host_spoiled_.data(), spoiled_.data(), sizeof(uint32_t),
                        cudaMemcpyDeviceToHost, stream()),
        place());
  context_.synchronize("update");
  return *host_spoiled_.data() == sequence_;
}

void DeviceVariables::examine(const float* values) {
  check(cudaMemsetAsync(found_.data(), 0, sizeof(uint32_t), stream()), place());
  cuda::find_not_finite(values, layout_.total, found_.data(), stream());
  check(cudaGetLastError(), place());
  check(cudaMemcpyAsync(host_found_.data(), found_.data(), sizeof(uint32_t),
                        cudaMemcpyDeviceToHost, stream()),
        place());
}

} // namespace troupe::kernels

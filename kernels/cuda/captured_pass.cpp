#include "kernels/cuda/captured_pass.cuh"

namespace troupe::kernels {

CapturedPasses::~CapturedPasses() {
  cudaStreamSynchronize(context_.stream());
  for (auto& [key, entry] : entries_)
    if (entry.graph != nullptr)
      cudaGraphExecDestroy(entry.graph);
}

void CapturedPasses::run(const Key& key, const std::function<void()>& work) {
  if (!records_) {
    work();
    return;
  }
  auto at = entries_.find(key);
  if (at == entries_.end()) {
    work();
    if (entries_.size() >= most)
      drop_oldest();
    entries_[key].used = ++calls_;
    return;
  }
  auto& entry = at->second;
  entry.used = ++calls_;
  if (entry.graph == nullptr)
    record(entry, work);
  check(cudaGraphLaunch(entry.graph, context_.stream()),
        context_.place("replaying a pass"));
}

void CapturedPasses::record(Entry& entry, const std::function<void()>& work) {
  const auto place = context_.place("recording a pass");
  // Other threads may allocate meanwhile.
  check(cudaStreamBeginCapture(context_.stream(),
                               cudaStreamCaptureModeThreadLocal),
        place);
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(context_.stream(), &graph);
    if (graph != nullptr)
      cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(context_.stream(), &graph), place);
  const auto status = cudaGraphInstantiate(&entry.graph, graph, 0);
  cudaGraphDestroy(graph);
  if (status != cudaSuccess)
    entry.graph = nullptr;
  check(status, place);
}

void CapturedPasses::drop_oldest() {
  auto oldest = entries_.begin();
  for (auto at = entries_.begin(); at != entries_.end(); ++at)
    if (at->second.used < oldest->second.used)
      oldest = at;
  // It may still run.
  context_.synchronize("dropping a recorded pass");
  if (oldest->second.graph != nullptr)
    cudaGraphExecDestroy(oldest->second.graph);
  entries_.erase(oldest);
}

} // namespace troupe::kernels

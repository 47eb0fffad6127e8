#include "kernels/cuda/device_batch.cuh"

#include <algorithm>
#include <cstring>

namespace troupe::kernels {

DeviceBatch::DeviceBatch(const Graph& graph, uint32_t max_rows,
                         CudaContext& context)
  : context_(context) {
  const auto rows = uint64_t{max_rows};
  auto place_all = [&] {
    bytes_ = 0;
    place(features_, graph.features(), rows);
    place(ids_, graph.ids(), rows);
    const bool values = graph.loss().kind == OpKind::mean_squared_error;
    place(labels_, values ? 0 : graph.labels(), rows);
    place(targets_, values ? graph.labels() : 0, rows);
    place(key_, 1, 1);
    place(totals_, 1, 1);
    place(classes_, graph.labels(), rows);
  };
  place_all(); // counts
  const auto where = context.place("memory of a micro-batch");
  device_ = CudaArray<char>(CudaArray<char>::Where::device, bytes_, where);
  host_ = CudaArray<char>(CudaArray<char>::Where::pinned, bytes_, where);
  place_all();
}

template <class T>
void DeviceBatch::place(Mirror<T>& mirror, uint64_t row, uint64_t count) {
  mirror.row = row;
  if (device_.data() != nullptr) {
    mirror.device = reinterpret_cast<T*>(device_.data() + bytes_);
    mirror.host = reinterpret_cast<T*>(host_.data() + bytes_);
  }
  bytes_ += (row * count * sizeof(T) + 255) / 256 * 256;
}

template <class T>
void DeviceBatch::send(const Mirror<T>& mirror, const T* from, uint64_t count) {
  if (from == nullptr || count == 0)
    return;
  std::memcpy(mirror.host, from, count * sizeof(T));
  check(cudaMemcpyAsync(mirror.device, mirror.host, count * sizeof(T),
                        cudaMemcpyHostToDevice, context_.stream()),
        context_.place("upload of a micro-batch"));
}

template <class T>
void DeviceBatch::fetch(const Mirror<T>& mirror, uint64_t count) {
  check(cudaMemcpyAsync(mirror.host, mirror.device, count * sizeof(T),
                        cudaMemcpyDeviceToHost, context_.stream()),
        context_.place("download of predictions"));
}

void DeviceBatch::upload(const Batch& batch) {
  send(features_, batch.features, batch.rows * features_.row);
  send(ids_, batch.ids, batch.rows * ids_.row);
  send(labels_, batch.labels, batch.rows * labels_.row);
  send(targets_, batch.targets, batch.rows * targets_.row);
  send(key_, &batch.key, 1);
}

Engine::Pass DeviceBatch::pass(const Batch& batch,
                               const Predictions& predictions) const {
  Engine::Pass pass;
  pass.rows = batch.rows;
  pass.loss_waits = true;
  pass.features = batch.features != nullptr ? features_.device : nullptr;
  pass.ids = batch.ids != nullptr ? ids_.device : nullptr;
  if (labels_.row != 0 && batch.labels != nullptr)
    pass.labels = labels_.device;
  if (targets_.row != 0 && batch.targets != nullptr)
    pass.targets = targets_.device;
  pass.key = key_.device;
  pass.totals = totals_.device;
  pass.exchange = batch.exchange;
  pass.step = batch.step;
  if (predictions.classes != nullptr)
    pass.classes = classes_.device;
  return pass;
}

void DeviceBatch::download(const Engine::Pass& pass) {
  if (pass.labels != nullptr || pass.targets != nullptr)
    fetch(totals_, 1);
  if (pass.classes != nullptr)
    fetch(classes_, pass.rows * classes_.row);
}

LossTotals DeviceBatch::take(const Engine::Pass& pass,
                             const Predictions& predictions) const {
  if (pass.classes != nullptr)
    std::copy_n(classes_.host, pass.rows * classes_.row, predictions.classes);
  return pass.labels != nullptr || pass.targets != nullptr ? *totals_.host
                                                           : LossTotals{};
}

} // namespace troupe::kernels

#include "kernels/pjrt/passes.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"

#include <numeric>
#include <utility>

namespace troupe::kernels::pjrt {

namespace {

using stablehlo::BatchField;
using stablehlo::TensorType;

/// Losses come one a row, so that they can be added in double.
LeafStats stats_of(const std::vector<float>& losses, int32_t correct) {
  LeafStats out;
  for (auto loss : losses)
    out.loss_sum += double{loss};
  out.correct = static_cast<uint64_t>(correct);
  return out;
}

} // namespace

Passes::Passes(const Graph& graph, DeviceId device, Precision precision)
  : graph_(graph),
    layout_(graph),
    precision_(precision),
    client_(Client::of(*device.file)),
    device_(device.index) {
  if (device_ >= client_->devices())
    throw InputError(to_string(device) + ": the plugin has "
                     + std::to_string(client_->devices())
                     + " devices; use --devices pjrt:" + *device.file + ":"
                     + std::to_string(client_->devices()));
  // What cannot be written is said before a batch comes.
  stablehlo::gradient_program(graph_, min_rows(graph_), precision_);
}

DeviceTensors Passes::upload(const float* flat) {
  DeviceTensors out;
  for (size_t i = 0; i < graph_.parameters.size(); ++i)
    out.push_back(client_->upload(flat + layout_.offsets[i],
                                  {graph_.parameters[i].shape}, device_));
  return out;
}

void Passes::download(const DeviceTensors& tensors, float* flat) {
  std::vector<Client::Download> all;
  for (size_t i = 0; i < tensors.size(); ++i)
    all.push_back({&tensors[i], flat + layout_.offsets[i]});
  client_->download(all);
}

const Passes::Compiled& Passes::compiled(Kind kind, uint32_t rows) {
  const auto key = std::pair{kind, rows};
  if (const auto found = compiled_.find(key); found != compiled_.end())
    return found->second;
  Compiled made;
  made.pass = kind == Kind::evaluation
                ? stablehlo::evaluation_program(graph_, rows, precision_)
                : stablehlo::gradient_program(graph_, rows, precision_);
  made.executable = client_->compile(made.pass.program, device_);
  return compiled_.emplace(key, std::move(made)).first->second;
}

/// A gather clamps, and says nothing.
/// Errors: InputError for an id outside [-1, vocabulary).
void Passes::check_ids(const Batch& batch) const {
  for (const auto& op : graph_.ops) {
    if (op.kind != OpKind::embedding && op.kind != OpKind::embedding_bag)
      continue;
    const auto end =
      static_cast<int64_t>(graph_.parameters[op.parameters[0]].shape[0]);
    const auto count = batch.rows * graph_.ids();
    for (uint64_t i = 0; i < count; ++i)
      if (batch.ids[i] < -1 || batch.ids[i] >= end)
        throw InputError("operator " + op.name + ": id "
                         + std::to_string(batch.ids[i])
                         + " is outside the table's " + std::to_string(end)
                         + " rows; give ids from 0, -1 for an absent one");
  }
}

DeviceTensor Passes::field(BatchField field, const TensorType& type,
                           const Batch& batch) {
  const auto send = [&](const void* data) {
    return client_->upload(data, type, device_);
  };
  const bool in_step = batch.step.rows > 0;
  const auto rows = static_cast<float>(in_step ? batch.step.rows : batch.rows);
  const auto leaves = static_cast<float>(in_step ? batch.step.leaves : 1);
  const auto zeros = [&] { // only predictions are wanted
    const std::vector<uint32_t> none(elements(type.shape), 0);
    return send(none.data());
  };
  switch (field) {
    case BatchField::features:
      return send(batch.features);
    case BatchField::ids:
      return send(batch.ids);
    case BatchField::labels:
      return batch.labels != nullptr ? send(batch.labels) : zeros();
    case BatchField::targets:
      return batch.targets != nullptr ? send(batch.targets) : zeros();
    case BatchField::key:
      return send(&batch.key);
    case BatchField::step_rows:
      return send(&rows);
    case BatchField::step_leaves:
      break;
  }
  return send(&leaves);
}

DeviceTensors Passes::run(const Compiled& pass, const Batch& batch,
                          const DeviceTensors& parameters) {
  require(batch.exchange == nullptr, "a device of a plugin has no peers");
  check_ids(batch);
  const auto& types = pass.pass.program.arguments();
  std::vector<const DeviceTensor*> arguments;
  for (const auto& parameter : parameters)
    arguments.push_back(&parameter);
  DeviceTensors given;
  for (auto of_batch : pass.pass.batch)
    given.push_back(
      field(of_batch, types[arguments.size() + given.size()], batch));
  for (const auto& tensor : given)
    arguments.push_back(&tensor);
  return client_->run(*pass.executable, arguments);
}

Passes::Result Passes::gradient(const DeviceTensors& parameters,
                                const Batch& batch) {
  const auto& pass = compiled(Kind::gradient, batch.rows);
  auto results = run(pass, batch, parameters);
  std::vector<float> losses(batch.rows);
  int32_t correct = 0;
  std::vector<Client::Download> all{{&results[0], losses.data()}};
  if (pass.pass.counts)
    all.push_back({&results[1], &correct});
  client_->download(all);
  Result out{stats_of(losses, correct), {}};
  for (size_t i = pass.pass.counts ? 2 : 1; i < results.size(); ++i)
    out.tensors.push_back(std::move(results[i]));
  return out;
}

LeafStats Passes::evaluate(const DeviceTensors& parameters, const Batch& batch,
                           const Predictions& predictions) {
  const auto& pass = compiled(Kind::evaluation, batch.rows);
  const auto results = run(pass, batch, parameters);
  std::vector<float> losses(batch.rows);
  int32_t correct = 0;
  std::vector<Client::Download> all{{&results[0], losses.data()}};
  if (pass.pass.counts)
    all.push_back({&results[1], &correct});
  if (pass.pass.counts && predictions.classes != nullptr)
    all.push_back({&results[2], predictions.classes});
  if (predictions.outputs != nullptr)
    all.push_back({&results.back(), predictions.outputs});
  client_->download(all);
  if (batch.labels == nullptr && batch.targets == nullptr)
    return {};
  return stats_of(losses, correct);
}

} // namespace troupe::kernels::pjrt

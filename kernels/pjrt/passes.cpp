#include "kernels/pjrt/passes.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"

#include <cstring>
#include <numeric>
#include <stdexcept>
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

[[noreturn]] void refuse_count(const std::string& file, uint32_t there) {
  const auto plugin = "pjrt:" + file;
  throw InputError(plugin + ": the plugin has "
                   + (there == 0
                        ? "no devices"
                        : std::to_string(there) + " devices; use --devices "
                            + plugin + ":" + std::to_string(there)));
}

} // namespace

void add(Arguments& arguments, const DeviceTensors& tensors) {
  for (const auto& tensor : tensors)
    arguments.push_back(&tensor);
}

Passes::Passes(const Graph& graph, DeviceId device, Precision precision)
  : graph_(graph),
    layout_(graph),
    precision_(precision),
    client_(Client::of(*device.file)),
    devices_(device.count) {
  std::iota(devices_.begin(), devices_.end(), device.index);
  if (devices_.back() >= client_->devices())
    refuse_count(*device.file, client_->devices());
  // What cannot be written is said before a batch comes.
  stablehlo::gradient_program(graph_, min_rows(graph_), precision_);
}

std::string Passes::name(uint32_t place) const {
  return to_string(pjrt_device(client_->plugin().file(), devices_.at(place)));
}

DeviceTensors Passes::upload(const float* flat, uint32_t place) {
  DeviceTensors out;
  for (size_t i = 0; i < graph_.parameters.size(); ++i)
    out.push_back(
      upload(flat + layout_.offsets[i], {graph_.parameters[i].shape}, place));
  return out;
}

DeviceTensor Passes::upload(const void* data, const TensorType& type,
                            uint32_t place) {
  return client_->upload(data, type, devices_.at(place));
}

void Passes::download(const DeviceTensors& tensors, float* flat) {
  std::vector<Client::Download> all;
  for (size_t i = 0; i < tensors.size(); ++i)
    all.push_back({&tensors[i], flat + layout_.offsets[i]});
  client_->download(all);
}

void Passes::check_equal(const DeviceTensors& tensors, uint32_t place,
                         const float* flat, const char* what) {
  Buffer other{layout_.total};
  download(tensors, other.data());
  for (size_t i = 0; i < graph_.parameters.size(); ++i)
    if (std::memcmp(other.data() + layout_.offsets[i],
                    flat + layout_.offsets[i],
                    graph_.parameters[i].size() * sizeof(float))
        != 0)
      throw std::runtime_error(name(place) + " has other bits of " + what + ' '
                               + graph_.parameters[i].name + " than " + name(0)
                               + ": one of them is faulty");
}

float Passes::download(const DeviceTensor& one) {
  float value = 0;
  client_->download({{&one, &value}});
  return value;
}

Passes::Pass& Passes::pass(Kind kind, uint32_t rows) {
  const auto key = std::pair{kind, rows};
  if (const auto found = passes_.find(key); found != passes_.end())
    return found->second;
  auto written = kind == Kind::evaluation
                   ? stablehlo::evaluation_program(graph_, rows, precision_)
                   : stablehlo::gradient_program(graph_, rows, precision_);
  return passes_
    .emplace(key, Pass{Everywhere{std::move(written.program)},
                       std::move(written.batch), written.counts})
    .first->second;
}

std::vector<DeviceTensors>
Passes::run(Everywhere& program, const std::vector<uint32_t>& places,
            const std::vector<Arguments>& arguments) {
  const auto executable = [&](const std::vector<uint32_t>& where) {
    auto& made = program.made_[where];
    if (!made) {
      std::vector<uint32_t> devices;
      devices.reserve(where.size());
      for (auto place : where)
        devices.push_back(devices_.at(place));
      made = client_->compile(program.program_, devices);
    }
    return made;
  };
  if (places.size() == devices_.size())
    return client_->run(*executable(places), arguments);
  std::vector<DeviceTensors> out;
  for (size_t i = 0; i < places.size(); ++i)
    out.push_back(std::move(
      client_->run(*executable({places[i]}), {arguments[i]}).front()));
  return out;
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
                           const Batch& batch, uint32_t place) {
  const auto send = [&](const void* data) { return upload(data, type, place); };
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

Passes::Sent Passes::send(const Pass& pass, const Batch& batch,
                          uint32_t place) {
  require(batch.exchange == nullptr, "a device of a plugin has no peers");
  check_ids(batch);
  const auto& types = pass.program.program_.arguments();
  Sent out{place, batch.rows, {}};
  for (auto of_batch : pass.batch)
    out.fields.push_back(
      field(of_batch, types[graph_.parameters.size() + out.fields.size()],
            batch, place));
  return out;
}

Passes::Sent Passes::send_for_gradient(const Batch& batch, uint32_t place) {
  return send(pass(Kind::gradient, batch.rows), batch, place);
}

std::vector<Passes::Gradient>
Passes::gradients(const std::vector<Sent>& batches,
                  const std::vector<const DeviceTensors*>& parameters) {
  auto& of_rows = pass(Kind::gradient, batches.front().rows);
  std::vector<uint32_t> places;
  std::vector<Arguments> arguments;
  for (size_t i = 0; i < batches.size(); ++i) {
    require(batches[i].rows == batches.front().rows,
            "passes of one number of rows");
    places.push_back(batches[i].place);
    add(arguments.emplace_back(), *parameters[i]);
    add(arguments.back(), batches[i].fields);
  }
  std::vector<Gradient> out;
  for (auto& results : run(of_rows.program, places, arguments)) {
    const auto first = results.begin() + (of_rows.counts ? 2 : 1);
    out.push_back({batches.front().rows,
                   {std::make_move_iterator(results.begin()),
                    std::make_move_iterator(first)},
                   {std::make_move_iterator(first),
                    std::make_move_iterator(results.end())}});
  }
  return out;
}

LeafStats Passes::stats_of(const Gradient& gradient) {
  std::vector<float> losses(gradient.rows);
  int32_t correct = 0;
  std::vector<Client::Download> all{{&gradient.stats[0], losses.data()}};
  if (gradient.stats.size() > 1)
    all.push_back({&gradient.stats[1], &correct});
  client_->download(all);
  return pjrt::stats_of(losses, correct);
}

LeafStats Passes::evaluate(const DeviceTensors& parameters, const Batch& batch,
                           const Predictions& predictions) {
  auto& of_rows = pass(Kind::evaluation, batch.rows);
  const auto sent = send(of_rows, batch, 0);
  Arguments arguments;
  add(arguments, parameters);
  add(arguments, sent.fields);
  const auto results =
    std::move(run(of_rows.program, {0}, {arguments}).front());
  const bool counts = of_rows.counts;
  std::vector<float> losses(batch.rows);
  int32_t correct = 0;
  std::vector<Client::Download> all{{&results[0], losses.data()}};
  if (counts)
    all.push_back({&results[1], &correct});
  if (counts && predictions.classes != nullptr)
    all.push_back({&results[2], predictions.classes});
  if (predictions.outputs != nullptr)
    all.push_back({&results.back(), predictions.outputs});
  client_->download(all);
  if (batch.labels == nullptr && batch.targets == nullptr)
    return {};
  return pjrt::stats_of(losses, correct);
}

} // namespace troupe::kernels::pjrt

#include "actors/trained_model.hpp"

#include "kernels/error.hpp"
#include "kernels/executor.hpp"
#include "kernels/files/safetensors.hpp"

#include <algorithm>
#include <future>
#include <numeric>

namespace troupe {

namespace {

constexpr uint32_t batch_rows = 256;

std::string text_of(const std::vector<uint64_t>& shape) {
  std::string out;
  for (auto extent : shape)
    out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + out + "]";
}

const NamedTensor& tensor_of(const SafetensorsFile& file,
                             const Parameter& parameter,
                             const std::string& where) {
  for (const auto& tensor : file.tensors) {
    if (tensor.name != parameter.name)
      continue;
    if (tensor.shape != parameter.shape)
      throw InputError(where + ": tensor " + tensor.name + " is "
                       + text_of(tensor.shape) + " but the model needs "
                       + text_of(parameter.shape)
                       + "; give the --model it was trained with");
    return tensor;
  }
  throw InputError(where + ": tensor " + parameter.name
                   + " is missing; give the --model it was trained with");
}

/// One replica's memory, used by one thread at a time.
struct Lane {
  std::unique_ptr<Replica> replica;
  std::vector<uint32_t> rows;
  std::vector<float> features;
  std::vector<int32_t> labels;
};

Lane make_lane(const Graph& graph, DeviceId device) {
  Lane lane;
  lane.replica = make_replica(graph, device, batch_rows);
  lane.rows.resize(batch_rows);
  lane.features.resize(size_t{batch_rows} * graph.features);
  lane.labels.resize(batch_rows);
  return lane;
}

LeafStats compute(Lane& lane, const float* parameters, const Dataset& data,
                  size_t batch, int32_t* predictions) {
  auto first = static_cast<uint32_t>(batch * batch_rows);
  auto count = static_cast<uint32_t>(
    std::min<uint64_t>(batch_rows, data.samples() - first));
  std::iota(lane.rows.begin(), lane.rows.end(), first);
  data.gather(lane.rows.data(), count, lane.features.data(),
              lane.labels.data());
  return lane.replica->evaluate(
    parameters, {lane.features.data(), lane.labels.data(), count},
    predictions + first);
}

} // namespace

TrainedModel load_trained_model(const std::string& model,
                                const std::string& path) {
  TrainedModel out{make_graph(model), {}, {}};
  auto file = read_safetensors(path);
  Layout layout{out.graph};
  out.parameters = Buffer{layout.total};
  out.parameters.fill(0);
  for (size_t i = 0; i < out.graph.parameters.size(); ++i) {
    const auto& tensor = tensor_of(file, out.graph.parameters[i], path);
    std::copy(tensor.values.begin(), tensor.values.end(),
              out.parameters.data() + layout.offsets[i]);
  }
  if (file.tensors.size() > out.graph.parameters.size())
    throw InputError(path + ": holds " + std::to_string(file.tensors.size())
                     + " tensors but the model has "
                     + std::to_string(out.graph.parameters.size())
                     + "; give the --model it was trained with");
  out.weights_sha256 = tensors_sha256(std::move(file.tensors));
  return out;
}

Scores score_on(Executor& executor, const Graph& graph, const float* parameters,
                const Dataset& data, DeviceId device) {
  const auto batches =
    static_cast<size_t>((data.samples() + batch_rows - 1) / batch_rows);
  Scores out;
  out.samples = data.samples();
  out.predictions.resize(data.samples());
  std::vector<LeafStats> stats(batches);
  std::vector<Lane> lanes;
  for (uint32_t i = 0; i < executor.threads(); ++i)
    lanes.push_back(make_lane(graph, device));
  executor.parallel_for(batches, [&](size_t batch, uint32_t thread) {
    stats[batch] = compute(lanes[thread], parameters, data, batch,
                           out.predictions.data());
  });
  uint64_t correct = 0;
  for (const auto& batch : stats) {
    out.loss += batch.loss_sum;
    correct += batch.correct;
  }
  out.loss /= static_cast<double>(out.samples);
  out.accuracy = static_cast<double>(correct)
                 / static_cast<double>(out.samples);
  return out;
}

Scores score(const TrainedModel& model, const Dataset& data, DeviceId device,
             uint32_t threads) {
  check_data_fits(model.graph, data);
  // A GPU has one stream here; more threads would only take turns.
  Executor executor{to_string(device),
                    device.kind == DeviceId::Kind::cuda ? 1 : threads};
  std::promise<Scores> done;
  executor.submit([&] {
    try {
      done.set_value(
        score_on(executor, model.graph, model.parameters.data(), data, device));
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  return done.get_future().get();
}

} // namespace troupe

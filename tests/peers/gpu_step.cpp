// Troupe's side of gpu_mlp.py and gpu_transformer.py: trains a model on one
// fixed batch, prints one JSON line. Given a folder it first writes there what
// a peer needs to do the same: parameters, ids or features, labels.

#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/cuda/resident.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/graph/models.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace troupe;

namespace {

using Clock = std::chrono::steady_clock;

/// --name value pairs, over their defaults.
class Flags {
public:
  Flags(int count, char** words) {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string name = words[i];
      if (values_.count(name) == 0)
        throw UsageError("gpu_step: unknown flag " + name);
      values_[name] = words[i + 1];
    }
    if (count % 2 == 0)
      throw UsageError("gpu_step: flags and values come in pairs");
  }
  const std::string& text(const std::string& name) const {
    return values_.at(name);
  }
  double number(const std::string& name) const { return std::stod(text(name)); }
  uint32_t whole(const std::string& name) const {
    return static_cast<uint32_t>(std::stoul(text(name)));
  }

private:
  std::map<std::string, std::string> values_ = {
    {"--model", "mlp:784-512-256-10"},
    {"--vocabulary", "50304"},
    {"--batch", "256"},
    {"--device", "cuda:0"},
    {"--precision", "float32"},
    {"--optimizer", "adam"},
    {"--beta2", "0.999"},
    {"--decay", "0"},
    {"--clip", "0"},
    {"--lr", "1e-3"},
    {"--checked", "5"},  // steps whose losses are printed
    {"--skipped", "10"}, // steps before those timed
    {"--steps", "20"},   // of a timed run
    {"--runs", "5"},
    {"--dump", ""},
  };
};

struct Work {
  explicit Work(const Flags& flags) : rows(flags.whole("--batch")) {
    SampleShape sample;
    if (flags.text("--model").starts_with("transformer")) {
      sample.vocabulary = flags.whole("--vocabulary");
      sample.label = LabelKind::tokens;
    }
    graph = make_graph(flags.text("--model"), sample);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> draw(0, 1);
    memory = std::make_unique<BatchMemory>(graph, rows);
    for (uint64_t i = 0; i < rows * graph.features(); ++i)
      memory->features()[i] = draw(random);
    for (uint64_t i = 0; i < rows * graph.ids(); ++i)
      memory->ids()[i] =
        static_cast<int32_t>(random() % graph.sample.vocabulary);
    for (uint64_t i = 0; i < rows * graph.labels(); ++i)
      memory->labels()[i] = static_cast<int32_t>(random() % graph.classes());
    const Layout layout(graph);
    parameters = Buffer(layout.total);
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i)
      initialize(graph, 1, i, 0, parameters.data() + layout.offsets[i],
                 graph.parameters[i].size());
  }

  uint32_t rows;
  Graph graph;
  std::unique_ptr<BatchMemory> memory;
  Buffer parameters;
};

template <class T>
NamedTensor tensor(const std::string& name, Shape shape, const T* values) {
  const auto count = elements(shape);
  return {name, std::move(shape), {values, values + count}};
}

void dump(Work& work, const std::string& folder) {
  const Layout layout(work.graph);
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < work.graph.parameters.size(); ++i) {
    const auto& parameter = work.graph.parameters[i];
    tensors.push_back(tensor(parameter.name, parameter.shape,
                             work.parameters.data() + layout.offsets[i]));
  }
  const uint64_t rows = work.rows;
  // Whole numbers below 2^24 are exact in float32.
  if (work.graph.ids() > 0)
    tensors.push_back(
      tensor("batch/ids", {rows, work.graph.ids()}, work.memory->ids()));
  else
    tensors.push_back(tensor("batch/features", {rows, work.graph.features()},
                             work.memory->features()));
  tensors.push_back(
    tensor("batch/labels", {rows, work.graph.labels()}, work.memory->labels()));
  write_safetensors(folder + "/start.safetensors", tensors, {});
}

DeviceId device_of(const std::string& text) {
  DeviceId device;
  const auto colon = text.find(':');
  if (colon == std::string::npos)
    throw UsageError("gpu_step: --device " + text + ": write cuda:0 or cpu:0");
  if (text.starts_with("cuda"))
    device.kind = DeviceId::Kind::cuda;
  device.index = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  return device;
}

nlohmann::json measure(const Flags& flags, Work& work) {
  OptimizerOptions rule;
  rule.kind = parse_optimizer(flags.text("--optimizer"));
  rule.beta2 = flags.number("--beta2");
  rule.weight_decay = static_cast<float>(flags.number("--decay"));
  auto trainer = make_resident_trainer(
    work.graph, device_of(flags.text("--device")), rule, work.rows,
    flags.text("--precision") == "bfloat16" ? Precision::bfloat16
                                            : Precision::float32);
  trainer->set_parameters(work.parameters.data());
  trainer->load(work.memory->batch(work.rows));
  ResidentTrainer::Step step;
  step.learning_rate = static_cast<float>(flags.number("--lr"));
  step.samples = static_cast<float>(work.rows);
  step.clip_norm = flags.number("--clip");
  step.number = 0;
  std::vector<double> losses;
  for (uint32_t i = 0; i < flags.whole("--checked"); ++i) {
    ++step.number;
    trainer->step(step);
    losses.push_back(trainer->stats().loss_sum / work.rows);
  }
  for (uint32_t i = 0; i < flags.whole("--skipped"); ++i) {
    ++step.number;
    trainer->step(step);
  }
  trainer->stats();
  std::vector<double> times;
  const auto steps = flags.whole("--steps");
  for (uint32_t run = 0; run < flags.whole("--runs"); ++run) {
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < steps; ++i) {
      ++step.number;
      trainer->step(step);
    }
    trainer->stats(); // waits
    times.push_back(
      std::chrono::duration<double, std::milli>(Clock::now() - begin).count()
      / steps);
  }
  std::sort(times.begin(), times.end());
  return {{"losses", losses},
          {"step_ms", times[times.size() / 2]},
          {"step_ms_all", times},
          {"flops",
           static_cast<double>(work.graph.flops_per_sample()) * work.rows},
          {"version", library_versions()}};
}

} // namespace

int main(int count, char** words) {
  try {
    const Flags flags(count, words);
    select_isa("auto");
    Work work(flags);
    if (!flags.text("--dump").empty())
      dump(work, flags.text("--dump"));
    std::printf("%s\n", measure(flags, work).dump().c_str());
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_step: %s\n", failure.what());
    return 1;
  }
}

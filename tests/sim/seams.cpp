// What the roles of actors/ call and the simulator answers in its own way:
// executors, the model's arithmetic, metrics. Linked in place of the rooms'
// own; the declarations are theirs.

#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/rank_shares.hpp"
#include "actors/compute/step_rows.hpp"
#include "actors/coordinator/evaluator.hpp"
#include "actors/links/link_endpoint.hpp"
#include "actors/role/caf_metrics.hpp"
#include "actors/role/context.hpp"
#include "actors/role/link_terms.hpp"
#include "kernels/base/require.hpp"
#include "kernels/engine/executor.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "monitoring/metrics.hpp"
#include "tests/sim/fiber.hpp"
#include "tests/sim/gradient.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>

namespace troupe {

namespace sim {

GradientKind gradient_kind = GradientKind::ordered;
std::function<void(uint32_t, uint64_t, const float*)> on_compute;
uint64_t abandoned_passes = 0;

float leaf_gradient(GradientKind kind, uint64_t step, uint32_t rank, uint64_t i,
                    float parameter) {
  const auto drawn = Random{step * 1'000'003 + rank * 10'007 + i}.next();
  if (kind == GradientKind::counted)
    return static_cast<float>(static_cast<int64_t>(drawn % 32) - 16);
  const auto part = static_cast<float>(drawn >> 40) / 16777216.0f - 0.5f;
  return part * static_cast<float>(1u << (drawn % 5)) + 0.25f * parameter;
}

} // namespace sim

// --- hosts -------------------------------------------------------------------

std::optional<LinkEndpoint> parse_link_endpoint(const std::string&) {
  return std::nullopt; // links lead to processes
}

// --- executors ---------------------------------------------------------------

namespace {

/// Thrown out of a task that would wait for something: it begins anew later.
struct NotYet {};

uint32_t task_process = 0; ///< of the newest task that is no fiber

uint32_t process_of_task() {
  const auto* fiber = sim::Fiber::running();
  return fiber != nullptr ? fiber->process() : task_process;
}

} // namespace

/// One task at a time, each after its time in the process that it is of.
struct Executor::Impl {
  uint32_t process = sim::Runtime::get().spawning();
  std::deque<std::function<void()>> tasks;
  std::shared_ptr<bool> lives = std::make_shared<bool>(true);
  std::shared_ptr<sim::Fiber> fiber; ///< that runs or waits

  void run_next() {
    auto& runtime = sim::Runtime::get();
    runtime.in_process(process, runtime.task_time(process), lives, [this] {
      if (sim::tasks_may_wait && is_worker())
        return run_as_fiber();
      auto task = std::move(tasks.front());
      tasks.pop_front();
      task_process = process;
      try {
        task();
        sim::Runtime::get().count_task(process, -1);
      } catch (const NotYet&) {
        tasks.push_front(std::move(task));
      }
      if (!tasks.empty())
        run_next();
    });
  }

  bool is_worker() const { // shards' tasks wait for nobody
    return sim::Runtime::get().name(process).starts_with("worker");
  }

  void run_as_fiber() {
    fiber = std::make_shared<sim::Fiber>(process, std::move(tasks.front()));
    fiber->begin([this] {
      tasks.pop_front();
      sim::Runtime::get().count_task(process, -1);
      if (!tasks.empty())
        run_next();
    });
  }
};

Executor::Executor(std::string, uint32_t) : impl_(std::make_unique<Impl>()) {}
Executor::~Executor() = default;

uint32_t Executor::threads() const {
  return 1;
}

void Executor::submit(std::function<void()> task, TaskSize) {
  impl_->tasks.push_back(std::move(task));
  sim::Runtime::get().count_task(impl_->process, 1);
  if (impl_->tasks.size() == 1)
    impl_->run_next();
}

size_t Executor::queued() const {
  return impl_->tasks.size();
}

void Executor::parallel_for(size_t items,
                            const std::function<void(size_t, uint32_t)>& body) {
  for (size_t item = 0; item < items; ++item)
    body(item, 0);
}

void ParameterGate::await(size_t parameter) {
  if (abandoned())
    throw PassAbandoned{};
  if (!open_[parameter])
    throw NotYet{};
}

// --- the model ---------------------------------------------------------------

SumBuffer::SumBuffer(size_t count, LinkMemory*)
  : values_(new float[count](), std::default_delete<float[]>()),
    count_(count) {}

TensorView NodeSum::view(uint64_t offset, uint64_t count) const {
  return sum ? TensorView{sum, sum->data() + offset, count} : TensorView{};
}

DeviceId parse_device(const std::string&) {
  return {};
}

LeafComputer::LeafComputer(std::shared_ptr<const Job> job,
                           std::shared_ptr<const Dataset> data,
                           Executor& executor, DeviceId device,
                           std::shared_ptr<LinkMemory> memory,
                           std::shared_ptr<FaultTrigger> faults,
                           std::shared_ptr<FlightRecorder> flight)
  : job_(std::move(job)),
    data_(std::move(data)),
    executor_(executor),
    device_(device),
    sampling_(job_->sampling),
    whole_nodes_(false),
    rows_(job_->max_rows()),
    memory_(std::move(memory)),
    faults_(std::move(faults)),
    flight_(std::move(flight)) {}

/// Samples of a simulation lie everywhere.
void LeafComputer::expect(uint64_t, RankRange, uint64_t) {}

DataTime LeafComputer::take_data_time() {
  return {};
}

constexpr auto no_device = "no device of a simulation keeps variables";

bool LeafComputer::filled(uint64_t, RankRange) const {
  kernels::require(false, no_device);
  return false;
}

LeafLoss LeafComputer::push_pass(ResidentReplica&, uint64_t, RankRange,
                                 uint32_t) {
  kernels::require(false, no_device);
  return {};
}

namespace {

/// Until the next bucket of a replica's gradient is final.
constexpr uint64_t a_bucket[2] = {20, 400};

/// What the leaves of a step are made of.
struct Step {
  const Job& job;
  const Dataset* data;
  Sampling& sampling;
  uint64_t number;
  const float* parameters;
  const StepRows* rows; ///< null: there are no tables
  float statistics = 0; ///< what every leaf has of all ranks'
};

/// Rows that the rank's samples touch have a gradient, others none; by the ids,
/// wherever the rows lie in this worker's memory.
void add_rows(const Step& step, uint32_t rank, uint32_t table, float* sum) {
  const auto& shape = step.job.graph.parameters[table].shape;
  const auto width = elements(shape) / shape.front();
  const auto offset = step.job.layout.offsets[table];
  std::fill_n(sum + offset, step.job.worker_graph.parameters[table].size(),
              0.0f);
  std::vector<uint64_t> samples;
  step.sampling.indices(step.number, rank, samples);
  const auto ids = step.data->shape.ids;
  for (auto sample : samples)
    for (uint64_t i = 0; i < ids; ++i) {
      const auto id = step.data->ids[sample * ids + i];
      auto place = id;
      step.rows->renumber(&place, 1);
      for (uint64_t j = 0; place >= 0 && j < width; ++j) {
        const auto at = offset + static_cast<uint64_t>(place) * width + j;
        sum[at] +=
          sim::leaf_gradient(sim::gradient_kind, step.number, rank,
                             1'000'000 + static_cast<uint64_t>(id) * width + j,
                             step.parameters[at]);
      }
    }
}

/// The sum of a node along the tree; null for the identity.
std::shared_ptr<SumBuffer> sum_of(const Step& step, RankRange node) {
  if (node.size() > 1) {
    const auto [left, right] = children(node);
    auto sum = sum_of(step, left);
    const auto other = sum_of(step, right);
    if (!sum || !other)
      return sum ? sum : other;
    for (size_t i = 0; i < sum->size(); ++i)
      sum->data()[i] += other->data()[i];
    return sum;
  }
  const auto& job = step.job;
  if (job.sampling.rank(step.number, node.lo).count == 0)
    return nullptr;
  auto sum = std::make_shared<SumBuffer>(job.layout.total, nullptr);
  for (size_t i = 0; i < sum->size(); ++i)
    sum->data()[i] = sim::leaf_gradient(sim::gradient_kind, step.number,
                                        node.lo, i, step.parameters[i])
                     + step.statistics;
  if (step.rows != nullptr)
    for (auto table : job.tables)
      add_rows(step, node.lo, table, sum->data());
  return sum;
}

bool has_norms(const Job& job) {
  return std::ranges::any_of(job.graph.ops, [](const Op& op) {
    return op.kind == OpKind::batch_norm;
  });
}

bool has_samples(const Step& step, uint32_t rank) {
  return step.job.sampling.rank(step.number, rank).count > 0;
}

/// What a rank has of sum `i` of a step.
void put_share(const Step& step, uint32_t rank, uint32_t i, RankShares& out) {
  if (has_samples(step, rank))
    out.put(rank, {{sim::leaf_gradient(sim::gradient_kind, step.number, rank,
                                       2'000'000 + i, step.parameters[0])},
                   1});
}

constexpr uint32_t sums_of_norms = 3;

/// The sums of a step's norms; 0 of a model without.
float statistics_of(const Step& step) {
  const auto ranks = step.job.options.virtual_ranks;
  float all = 0;
  for (uint32_t i = 0; i < sums_of_norms && has_norms(step.job); ++i) {
    RankShares shares{ranks};
    for (uint32_t rank = 0; rank < ranks; ++rank)
      put_share(step, rank, i, shares);
    all += static_cast<float>(shares.take_sum().values.front());
  }
  return all;
}

/// The same by what peers give, if there are any, each of whom is somewhere
/// else in its passes.
float statistics_of(const Step& step, const NodeTargets& targets) {
  if (targets.peers == nullptr)
    return statistics_of(step);
  auto& runtime = sim::Runtime::get();
  float all = 0;
  for (uint32_t i = 0; i < sums_of_norms; ++i) {
    RankShares shares{step.job.options.virtual_ranks};
    for (auto node : targets.nodes)
      for (auto rank = node.lo; rank < node.hi; ++rank)
        put_share(step, rank, i, shares);
    if (shares.size() == 0)
      break;
    sim::Fiber::wait_until(
      runtime.now() + runtime.random().between(a_bucket[0], a_bucket[1]));
    try {
      targets.peers->gather(shares);
    } catch (const PassAbandoned&) {
      ++sim::abandoned_passes;
      throw;
    }
    all += static_cast<float>(shares.take_sum().values.front());
  }
  targets.peers->any(false);
  return all;
}

} // namespace

StepGradient
LeafComputer::compute(uint64_t step, const std::vector<RankRange>& nodes,
                      const float* parameters,
                      std::shared_ptr<const StepRows> rows,
                      const GradientBuckets* buckets, const NodesReady& ready,
                      ParameterGate* gate, RankPeers* peers) {
  StepGradient out;
  out.step = step;
  Step whole{*job_, data_.get(), sampling_, step, parameters, rows.get()};
  try {
    if (gate != nullptr)
      gate->await_all();
    if (sim::on_compute)
      sim::on_compute(process_of_task(), step, parameters);
    NodeTargets targets;
    targets.nodes = nodes;
    targets.peers = peers;
    whole.statistics = statistics_of(whole, targets);
  } catch (const PassAbandoned&) {
    out.abandoned = true;
    return out;
  }
  for (auto node : nodes) {
    out.nodes.push_back({node, sum_of(whole, node), rows});
    for (auto rank = node.lo; rank < node.hi; ++rank) {
      const auto samples = sampling_.rank(step, rank).count;
      out.leaves.push_back({rank, 1.0 * samples, samples});
    }
  }
  if (buckets != nullptr)
    for (uint32_t i = 0; i < buckets->runs.size(); ++i)
      ready(i, out.nodes);
  return out;
}

/// While buckets become final others go on.
StepGradient LeafComputer::compute(uint64_t step, const NodeTargets& targets,
                                   const float* parameters) {
  StepGradient out;
  out.step = step;
  if (sim::on_compute)
    sim::on_compute(process_of_task(), step, parameters);
  Step whole{*job_, data_.get(), sampling_, step, parameters, nullptr};
  whole.statistics = statistics_of(whole, targets);
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    if (const auto sum = sum_of(whole, targets.nodes[i]))
      std::copy_n(sum->data(), sum->size(), targets.sums[i]);
    for (auto rank = targets.nodes[i].lo; rank < targets.nodes[i].hi; ++rank) {
      const auto samples = sampling_.rank(step, rank).count;
      out.leaves.push_back({rank, 1.0 * samples, samples});
    }
  }
  auto& runtime = sim::Runtime::get();
  for (uint32_t i = 0; i < targets.buckets->runs.size() && targets.ready; ++i) {
    sim::Fiber::wait_until(
      runtime.now() + runtime.random().between(a_bucket[0], a_bucket[1]));
    targets.ready(i);
  }
  return out;
}

// --- what no simulated role has ----------------------------------------------

MessageLinks::Terms link_terms(const Job&, RoleId) {
  return {};
}
MessageLinks::Terms shard_peer_terms() {
  return {};
}
size_t snapshot_window() {
  return 1; // one slice after the other
}
std::string unlinkable(const Job&, RoleId, const std::vector<Member>&) {
  return {};
}

evaluator_actor spawn_evaluator(caf::actor_system&, RoleContext, RowsKnown) {
  throw std::logic_error("nothing is evaluated in a simulated world");
}

std::vector<MetricSample> caf_metrics(caf::actor_system&) {
  return {};
}
std::vector<MetricSample> process_metrics() {
  return {};
}
uint64_t peak_memory_bytes() {
  return 0;
}
MetricsReport measure(caf::actor_system&, const RoleContext& context) {
  return sign_of(context);
}

// --- metrics -----------------------------------------------------------------

namespace {

struct NoCounter : Counter {
  void add(double) override {}
} no_counter;
struct NoGauge : Gauge {
  void set(double) override {}
} no_gauge;
struct NoHistogram : Histogram {
  void observe(double) override {}
} no_histogram;

} // namespace

struct MetricRegistry::Impl {};
MetricRegistry::MetricRegistry() = default;
MetricRegistry::~MetricRegistry() = default;
Counter& MetricRegistry::counter(const MetricDescription&,
                                 const MetricLabels&) {
  return no_counter;
}
Gauge& MetricRegistry::gauge(const MetricDescription&, const MetricLabels&) {
  return no_gauge;
}
Histogram& MetricRegistry::histogram(const MetricDescription&,
                                     const MetricLabels&) {
  return no_histogram;
}
std::vector<MetricSample> MetricRegistry::collect() const {
  return {};
}

struct MetricExporter::Impl {};
MetricExporter::~MetricExporter() = default;
std::string MetricExporter::address() const {
  return {};
}
std::string MetricExporter::url(const std::string&) const {
  return {};
}
void MetricExporter::publish(const std::string&, std::vector<MetricSample>) {}
void MetricExporter::attach(const std::string&, const MetricRegistry&) {}

} // namespace troupe

#include "actors/job/job.hpp"
#include "actors/stores/remote_store.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/files/atomic_file.hpp"
#include "strategies/sampling.hpp"

#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

// `troupe bench data`: a source of samples alone.

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t batch_rows = 32;
constexpr uint64_t windowed_ids = 64; ///< of text, whose window a model sets
constexpr int data_trials = 5;

/// What a batch of the samples takes, without a model.
Graph taking_graph(const SampleShape& shape) {
  Graph graph;
  graph.sample = shape;
  const auto add = [&](Shape extents, ValueType type) {
    graph.values.push_back({"", std::move(extents), type});
    return static_cast<uint32_t>(graph.values.size() - 1);
  };
  const bool text = shape.label == LabelKind::tokens;
  if (!shape.features.empty())
    graph.features_value = add(shape.features, ValueType::float32);
  if (shape.vocabulary > 0)
    graph.ids_value = add({text ? windowed_ids : shape.ids}, ValueType::int32);
  Op loss;
  loss.kind = shape.label == LabelKind::number ? OpKind::mean_squared_error
                                               : OpKind::softmax_cross_entropy;
  const auto classes = text ? shape.vocabulary
                       : shape.label == LabelKind::number
                         ? 1
                         : std::max<uint64_t>(2, shape.classes);
  Shape logits{classes};
  if (text)
    logits.insert(logits.begin(), windowed_ids);
  loss.inputs = {add(std::move(logits), ValueType::float32)};
  loss.output = add({}, ValueType::float32);
  graph.ops.push_back(std::move(loss));
  return graph;
}

uint32_t sum_of(const Graph& graph, const Dataset& data,
                std::vector<uint64_t> rows, const DataPass& pass) {
  BatchMemory batch{graph, static_cast<uint32_t>(rows.size())};
  data.gather(rows.data(), static_cast<uint32_t>(rows.size()), batch, pass);
  uint32_t sum = 0;
  const auto add = [&](const void* values, size_t bytes) {
    if (values != nullptr)
      sum = crc32c(sum, values, bytes);
  };
  add(batch.features(), rows.size() * graph.features() * sizeof(float));
  add(batch.ids(), rows.size() * graph.ids() * sizeof(int32_t));
  add(batch.labels(), rows.size() * graph.labels() * sizeof(int32_t));
  return sum;
}

/// Samples read one by one are those of a batch.
void check_repeats(const Graph& graph, const Dataset& data,
                   const std::vector<uint64_t>& order, const DataPass& pass) {
  const auto count = std::min<size_t>(batch_rows, order.size());
  const std::vector<uint64_t> rows(
    order.begin(), order.begin() + static_cast<ptrdiff_t>(count));
  if (sum_of(graph, data, rows, pass) != sum_of(graph, data, rows, pass))
    throw InputError("bench data: samples that are read again are others: "
                     "nothing is measured");
}

struct SourceRate {
  double samples = 0; ///< a second
  double stored_bytes = 0;
  double all = 0; ///< samples
};

/// What all threads of this process have had.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& x) {
    return static_cast<double>(x.tv_sec)
           + 1e-6 * static_cast<double>(x.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Reads batches in training's order with so many threads.
SourceRate measure(const Graph& graph, const Dataset& data,
                   const std::vector<uint64_t>& order, const DataPass& pass,
                   uint32_t threads, double seconds) {
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> samples{0};
  std::atomic<uint64_t> bytes{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto begin = Clock::now();
  const auto work = [&] {
    BatchMemory batch{graph, batch_rows};
    std::vector<uint64_t> rows;
    auto mine = pass;
    while (seconds_since(begin) < seconds) {
      const auto first = next.fetch_add(batch_rows);
      rows.clear();
      for (uint64_t i = 0; i < batch_rows; ++i)
        rows.push_back(order[(first + i) % order.size()]);
      mine.data_epoch = pass.data_epoch + first / order.size();
      data.gather(rows.data(), batch_rows, batch, mine);
      if (data.in_files)
        for (const auto row : rows)
          bytes += data.in_files->stored_bytes(data.place(row));
      samples += batch_rows;
    }
  };
  std::vector<std::thread> workers;
  for (uint32_t i = 0; i < threads; ++i)
    workers.emplace_back([&] {
      try {
        work();
      } catch (...) {
        const std::lock_guard guard{mutex};
        failure = std::current_exception();
      }
    });
  for (auto& worker : workers)
    worker.join();
  if (failure)
    std::rethrow_exception(failure);
  const auto spent = seconds_since(begin);
  return {static_cast<double>(samples) / spent,
          static_cast<double>(bytes) / spent, static_cast<double>(samples)};
}

} // namespace

int run_bench_data(const Settings& settings) {
  const auto& job = settings.job;
  const auto begin = Clock::now();
  const auto parts = load_samples(job, nullptr, false, true);
  auto& data = *parts.train;
  const auto graph = taking_graph(data.shape);
  cut_windows(data, graph, false);
  const auto loaded = seconds_since(begin);
  const auto mix = mix_rule(parse_data_spec(job.data));
  Sampling sampling{job.seed,
                    data.samples(),
                    static_cast<uint32_t>(
                      std::min<uint64_t>(data.samples(), uint64_t{1} << 20)),
                    1,
                    1,
                    {mix.block, mix.window}};
  std::vector<uint64_t> order; // the first samples of training's order
  sampling.indices(0, 0, order);
  const DataPass pass{job.seed, 0};
  check_repeats(graph, data, order, pass);
  std::printf("%s: %llu samples, %s, ready in %.2f s; median of %d trials\n",
              data.name.c_str(),
              static_cast<unsigned long long>(data.samples()),
              data.unheld > 0 ? "drawn when they are wanted"
              : data.in_files ? "left in their files"
                              : "held in memory",
              loaded, data_trials);
  std::printf("%8s %14s %14s %14s %8s\n", "threads", "samples/s", "file MB/s",
              "values MB/s", "spread");
  nlohmann::json rows = nlohmann::json::array();
  const auto width = (graph.features() + graph.ids()) * sizeof(float);
  for (const auto threads : settings.bench.decode_threads) {
    std::vector<SourceRate> trials;
    const auto before = RemoteStore::process_counts();
    const auto worked = processor_seconds();
    for (int trial = 0; trial < data_trials; ++trial)
      trials.push_back(measure(graph, data, order, pass, threads,
                               static_cast<double>(settings.bench.data_seconds)
                                 / data_trials));
    const auto work = processor_seconds() - worked;
    double read = 0;
    for (const auto& trial : trials)
      read += trial.all;
    std::sort(trials.begin(), trials.end(), [](const auto& a, const auto& b) {
      return a.samples < b.samples;
    });
    const auto& middle = trials[trials.size() / 2];
    const auto spread = (trials.back().samples - trials.front().samples)
                        / middle.samples;
    const auto values = middle.samples * static_cast<double>(width);
    std::printf("%8u %14.0f %14.1f %14.1f %7.1f%%\n", threads, middle.samples,
                middle.stored_bytes / 1e6, values / 1e6, spread * 100);
    auto store = RemoteStore::process_counts();
    store -= before;
    const auto waited = 1e-6 * static_cast<double>(store.wait_us);
    if (store.requests + store.cache_hits > 0)
      std::printf("%8s %llu requests, %llu of them again, %.1f MB, %.1f s of "
                  "waiting; cache: %llu hits, %llu misses\n",
                  "store", static_cast<unsigned long long>(store.requests),
                  static_cast<unsigned long long>(store.tries_again),
                  static_cast<double>(store.bytes) / 1e6, waited,
                  static_cast<unsigned long long>(store.cache_hits),
                  static_cast<unsigned long long>(store.cache_misses));
    rows.push_back({{"name", "data"},
                    {"members", threads},
                    {"samples_per_second", middle.samples},
                    {"samples_per_processor_second", read / work},
                    {"file_bytes_per_second", middle.stored_bytes},
                    {"value_bytes_per_second", values},
                    {"ready_seconds", loaded},
                    {"store_requests", store.requests},
                    {"store_retries", store.tries_again},
                    {"store_bytes", store.bytes},
                    {"store_wait_seconds", waited},
                    {"cache_hits", store.cache_hits},
                    {"cache_misses", store.cache_misses},
                    {"spread", spread}});
  }
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe

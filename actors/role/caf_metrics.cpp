#include "actors/role/caf_metrics.hpp"

#include "actors/role/context.hpp"
#include "actors/stores/remote_store.hpp"
#include "monitoring/process_names.hpp"
#include "monitoring/store_names.hpp"

#include <caf/telemetry/counter.hpp>
#include <caf/telemetry/gauge.hpp>
#include <caf/telemetry/histogram.hpp>
#include <caf/telemetry/metric_family.hpp>
#include <caf/telemetry/metric_registry.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

namespace troupe {
namespace {

namespace telemetry = caf::telemetry;

class Bridge {
public:
  explicit Bridge(std::vector<MetricSample>& out) : out_(out) {}

  void operator()(const telemetry::metric_family* family,
                  const telemetry::metric* metric,
                  const telemetry::dbl_counter* x) {
    add(family, metric, MetricSample::Kind::counter).value = x->value();
  }
  void operator()(const telemetry::metric_family* family,
                  const telemetry::metric* metric,
                  const telemetry::int_counter* x) {
    add(family, metric, MetricSample::Kind::counter).value =
      static_cast<double>(x->value());
  }
  void operator()(const telemetry::metric_family* family,
                  const telemetry::metric* metric,
                  const telemetry::dbl_gauge* x) {
    add(family, metric, MetricSample::Kind::gauge).value = x->value();
  }
  void operator()(const telemetry::metric_family* family,
                  const telemetry::metric* metric,
                  const telemetry::int_gauge* x) {
    add(family, metric, MetricSample::Kind::gauge).value =
      static_cast<double>(x->value());
  }
  template <class Value>
  void operator()(const telemetry::metric_family* family,
                  const telemetry::metric* metric,
                  const telemetry::histogram<Value>* x) {
    auto& sample = add(family, metric, MetricSample::Kind::histogram);
    uint64_t total = 0;
    auto buckets = x->buckets();
    for (size_t i = 0; i < buckets.size(); ++i) {
      total += static_cast<uint64_t>(buckets[i].count.value());
      if (i + 1 < buckets.size())
        sample.bounds.push_back(static_cast<double>(buckets[i].upper_bound));
      sample.cumulative.push_back(total);
    }
    sample.sum = static_cast<double>(x->sum());
  }

private:
  static std::string text(caf::string_view view) {
    return {view.begin(), view.end()};
  }

  MetricSample& add(const telemetry::metric_family* family,
                    const telemetry::metric* metric, MetricSample::Kind kind) {
    MetricSample sample;
    sample.kind = kind;
    std::string name{family->prefix() + '_' + family->name()};
    if (family->unit() != "1")
      name += '_' + family->unit();
    if (family->is_sum())
      name += "_total";
    sample.name = metric_name(name);
    sample.help = family->helptext();
    for (const auto& label : metric->labels())
      sample.labels[metric_name(text(label.name()))] = text(label.value());
    out_.push_back(std::move(sample));
    return out_.back();
  }

  std::vector<MetricSample>& out_;
};

} // namespace

std::vector<MetricSample> caf_metrics(caf::actor_system& system) {
  std::vector<MetricSample> samples;
  Bridge bridge{samples};
  system.metrics().collect(bridge);
  return samples;
}

std::vector<MetricSample> process_metrics() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec)
           + 1e-6 * static_cast<double>(time.tv_usec);
  };
  uint64_t pages = 0, resident = 0;
  std::ifstream{"/proc/self/statm"} >> pages >> resident;
  const auto sample = [](const MetricDescription& metric, double value) {
    MetricSample out;
    out.kind = metric.kind;
    out.name = metric.name;
    out.help = metric.help;
    out.value = value;
    return out;
  };
  std::vector<MetricSample> samples{
    sample(metrics::process_cpu_seconds_total,
           seconds(usage.ru_utime) + seconds(usage.ru_stime)),
    sample(metrics::process_resident_memory_bytes,
           static_cast<double>(resident)
             * static_cast<double>(::sysconf(_SC_PAGESIZE)))};
  // Most processes ask no store.
  const auto stores = RemoteStore::process_counts();
  if (stores.requests + stores.cache_hits == 0)
    return samples;
  const auto count = [&](const MetricDescription& metric, uint64_t value) {
    samples.push_back(sample(metric, static_cast<double>(value)));
  };
  count(metrics::store_requests_total, stores.requests);
  count(metrics::store_retries_total, stores.tries_again);
  count(metrics::store_bytes_total, stores.bytes);
  samples.push_back(sample(metrics::store_wait_seconds_total,
                           1e-6 * static_cast<double>(stores.wait_us)));
  count(metrics::data_cache_hits_total, stores.cache_hits);
  count(metrics::data_cache_misses_total, stores.cache_misses);
  count(metrics::data_cache_damaged_total, stores.cache_damaged);
  return samples;
}

/// Not ru_maxrss: that has what held the process before it became this program.
uint64_t peak_memory_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::stoull(line.substr(std::strlen("VmHWM:"))) * 1024; // in kB
  return 0;
}

MetricsReport measure(caf::actor_system& system, const RoleContext& context) {
  auto report = sign_of(context);
  report.samples = context.metrics->collect();
  if (context.own_process && context.reports_process) {
    report.peak_memory_bytes = peak_memory_bytes();
    for (const auto& own : {caf_metrics(system), process_metrics()})
      report.samples.insert(report.samples.end(), own.begin(), own.end());
  }
  return report;
}

} // namespace troupe

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

using MetricLabels = std::map<std::string, std::string>;

/// One time series at one moment, as plain data: what a role sends to the
/// process that is scraped.
struct MetricSample {
  enum class Kind : uint8_t { counter, gauge, histogram } kind = Kind::gauge;
  std::string name;
  std::string help;
  MetricLabels labels;
  double value = 0;                  ///< counter, gauge
  std::vector<double> bounds;        ///< histogram: upper bounds, rising
  std::vector<uint64_t> cumulative;  ///< histogram: count <= bound, and +Inf
  double sum = 0;                    ///< histogram
};

class Counter {
public:
  virtual ~Counter() = default;
  virtual void add(double amount = 1) = 0;
};
class Gauge {
public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
};
class Histogram {
public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

/// The metrics of one process; all calls are thread-safe. Names follow
/// Prometheus' conventions: troupe_…_total, base units, bounded labels. The
/// same name and labels give the same object; references stay valid.
class MetricRegistry {
public:
  MetricRegistry();
  ~MetricRegistry();
  Counter& counter(const std::string& name, const std::string& help,
                   const MetricLabels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help,
               const MetricLabels& labels = {});
  /// Time histograms are in seconds; default bounds 100 µs … 30 s.
  Histogram& histogram(const std::string& name, const std::string& help,
                       const MetricLabels& labels = {},
                       std::vector<double> bounds = {});
  std::vector<MetricSample> collect() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Serves /metrics over HTTP. Every series gets a label `role`; series of
/// other processes arrive by publish().
class MetricExporter {
public:
  /// Binds `address`, HOST:PORT, port 0 for any.
  /// Errors: std::runtime_error, one line ("metrics address 127.0.0.1:9100:
  /// in use"; what to do).
  explicit MetricExporter(const std::string& address);
  ~MetricExporter();

  std::string address() const; ///< HOST:PORT really bound
  /// Replaces all that `role` (e.g. "worker:0") has published before.
  void publish(const std::string& role, std::vector<MetricSample> samples);
  /// Scrapes also collect this local registry under `role`; it must outlive
  /// the exporter.
  void attach(const std::string& role, const MetricRegistry& registry);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe

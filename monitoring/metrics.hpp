#pragma once

#include "monitoring/web_page.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  double value = 0;                 ///< counter, gauge
  std::vector<double> bounds;       ///< histogram: upper bounds, rising
  std::vector<uint64_t> cumulative; ///< histogram: count <= bound, and +Inf
  double sum = 0;                   ///< histogram
};

/// A metric as names.hpp lists it; lives as long as the program.
struct MetricDescription {
  MetricSample::Kind kind;
  const char* name;
  const char* help;
  std::span<const double> bounds = {}; ///< histogram; empty: default bounds
};

class Counter {
public:
  virtual ~Counter() = default;
  /// An amount that is negative or not a number is ignored.
  virtual void add(double amount = 1) = 0;
};
class Gauge {
public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
};
/// One of several who show the largest of what they know, from 0 on, in one
/// gauge; what it knew is forgotten when it goes.
class GaugeShare {
public:
  virtual ~GaugeShare() = default;
  virtual void set(double value) = 0;
};
class Histogram {
public:
  virtual ~Histogram() = default;
  /// A value that is not a number is ignored.
  virtual void observe(double value) = 0;
};

/// The metrics of one process; all calls are thread-safe. Names follow
/// Prometheus' conventions: troupe_…_total, base units, bounded labels. The
/// same name and labels give the same object; references stay valid. The
/// first help and bounds win; characters that Prometheus refuses in a name
/// become '_'.
/// Errors: std::invalid_argument, when a name is used for two kinds or bounds
/// do not rise.
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
  /// The same for a description of names.hpp, which must be of that kind.
  Counter& counter(const MetricDescription& metric,
                   const MetricLabels& labels = {});
  Gauge& gauge(const MetricDescription& metric,
               const MetricLabels& labels = {});
  /// A share of a gauge, which nobody sets without one. It goes before the
  /// registry does.
  std::unique_ptr<GaugeShare> largest(const MetricDescription& metric,
                                      const MetricLabels& labels = {});
  Histogram& histogram(const MetricDescription& metric,
                       const MetricLabels& labels = {});
  std::vector<MetricSample> collect() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The name with each character that Prometheus refuses replaced by '_'
/// ("caf.system.running-actors" -> "caf_system_running_actors").
std::string metric_name(std::string_view raw);

struct PageGuard;
/// Makes it, for a page that leaves the host or not.
using MakePageGuard = std::function<PageGuard(bool leaves_host)>;

/// Serves /metrics over HTTP, and what else it is given. Every series gets a
/// label `role`; series of other processes arrive by publish(). All calls are
/// thread-safe.
///
/// Whatever arrives, the answer stays one that Prometheus accepts: of two
/// kinds under one name the first seen wins and the other is dropped and
/// counted in troupe_metrics_conflicts_total; malformed and duplicate series
/// and those beyond 4096 roles or 100000 series are dropped and counted in
/// troupe_metrics_dropped_total{reason}.
class MetricExporter {
public:
  /// Binds `address`, HOST:PORT, port 0 for any; HOST is an address (of IPv6 in
  /// brackets) or a name, of whose addresses IPv4 goes first.
  /// Behind what `guard` makes; over HTTPS unless that is a loopback address.
  /// Errors: std::runtime_error, one line ("metrics address 127.0.0.1:9100:
  /// in use"; what to do); also where that leaves the host without a guard.
  explicit MetricExporter(const std::string& address,
                          const MakePageGuard& guard = {});
  ~MetricExporter();

  std::string address() const; ///< HOST:PORT really bound, HOST as numbers
  /// "http://HOST:PORT/metrics", or https.
  std::string url(const std::string& path = "/metrics") const;
  /// Serves a page beside /metrics, to the same readers.
  void serve(WebPage page);
  /// Gives what a scrape would get, whenever it is called. The registries that
  /// are attached must still be there.
  std::function<std::vector<MetricSample>()> reader() const;
  /// Replaces all that `role` (e.g. "worker:0") has published before; no
  /// samples: forgets the role.
  void publish(const std::string& role, std::vector<MetricSample> samples);
  /// Scrapes also collect this local registry under `role`; it must outlive
  /// the exporter.
  void attach(const std::string& role, const MetricRegistry& registry);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe

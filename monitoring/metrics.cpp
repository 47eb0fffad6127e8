#include "monitoring/metrics.hpp"

#include "monitoring/exposition_text.hpp"
#include "monitoring/sample_table.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

const std::vector<double> time_bounds = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
                                         1e-2, 2.5e-2, 5e-2, 0.1,  0.25,   0.5,
                                         1,    2.5,    5,    10,   30};

struct CounterCell : Counter {
  explicit CounterCell(prometheus::Counter& cell) : cell_(cell) {}
  void add(double amount) override {
    if (amount >= 0) // false for NaN, which would stay in the sum for ever
      cell_.Increment(amount);
  }
  prometheus::Counter& cell_;
};

struct GaugeCell : Gauge {
  explicit GaugeCell(prometheus::Gauge& cell) : cell_(cell) {}
  void set(double value) override { cell_.Set(value); }
  prometheus::Gauge& cell_;
};

/// What several know, of whom one gauge shows the largest.
struct SharedGauge {
  explicit SharedGauge(Gauge& gauge) : shown(gauge) {}
  void show() {
    double largest = 0;
    for (const auto& [share, value] : known)
      largest = std::max(largest, value);
    shown.set(largest);
  }
  std::mutex mutex;
  std::map<const GaugeShare*, double> known;
  Gauge& shown;
};

struct ShareCell : GaugeShare {
  explicit ShareCell(std::shared_ptr<SharedGauge> gauge)
    : gauge_(std::move(gauge)) {}
  ~ShareCell() override {
    const std::lock_guard guard{gauge_->mutex};
    if (gauge_->known.erase(this) > 0)
      gauge_->show();
  }
  ShareCell(const ShareCell&) = delete;
  ShareCell& operator=(const ShareCell&) = delete;
  void set(double value) override {
    const std::lock_guard guard{gauge_->mutex};
    gauge_->known[this] = value;
    gauge_->show();
  }
  const std::shared_ptr<SharedGauge> gauge_;
};

struct HistogramCell : Histogram {
  explicit HistogramCell(prometheus::Histogram& cell) : cell_(cell) {}
  void observe(double value) override {
    if (!std::isnan(value))
      cell_.Observe(value);
  }
  prometheus::Histogram& cell_;
};

using Key = std::pair<std::string, MetricLabels>;

template <class Cell>
using Cells = std::map<Key, std::unique_ptr<Cell>>;

void require_kind(const MetricDescription& metric, MetricSample::Kind kind) {
  if (metric.kind != kind)
    throw std::invalid_argument(std::string{"metric "} + metric.name
                                + ": described as another kind");
}

} // namespace

struct MetricRegistry::Impl {
  mutable std::mutex mutex;
  prometheus::Registry registry;
  Cells<CounterCell> counters;
  Cells<GaugeCell> gauges;
  std::map<const Gauge*, std::shared_ptr<SharedGauge>> shared;
  Cells<HistogramCell> histograms;

  template <class Cell, class Builder, class... Args>
  Cell& get(Cells<Cell>& cells, Builder build, const std::string& raw_name,
            const std::string& help, const MetricLabels& raw_labels,
            const Args&... args) {
    Key key{metric_name(raw_name), valid_labels(raw_labels)};
    std::lock_guard guard{mutex};
    if (auto i = cells.find(key); i != cells.end())
      return *i->second;
    try {
      auto& family = build.Name(key.first).Help(help).Register(registry);
      auto cell = std::make_unique<Cell>(family.Add(key.second, args...));
      return *cells.emplace(std::move(key), std::move(cell)).first->second;
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("metric " + raw_name + ": " + error.what());
    }
  }
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}

MetricRegistry::~MetricRegistry() = default;

Counter& MetricRegistry::counter(const std::string& name,
                                 const std::string& help,
                                 const MetricLabels& labels) {
  return impl_->get(impl_->counters, prometheus::BuildCounter(), name, help,
                    labels);
}

Gauge& MetricRegistry::gauge(const std::string& name, const std::string& help,
                             const MetricLabels& labels) {
  return impl_->get(impl_->gauges, prometheus::BuildGauge(), name, help,
                    labels);
}

Histogram& MetricRegistry::histogram(const std::string& name,
                                     const std::string& help,
                                     const MetricLabels& labels,
                                     std::vector<double> bounds) {
  if (bounds.empty())
    bounds = time_bounds;
  if (!rise(bounds))
    throw std::invalid_argument("metric " + name
                                + ": bounds must be finite and rise");
  return impl_->get(impl_->histograms, prometheus::BuildHistogram(), name, help,
                    labels, bounds);
}

Counter& MetricRegistry::counter(const MetricDescription& metric,
                                 const MetricLabels& labels) {
  require_kind(metric, MetricSample::Kind::counter);
  return counter(metric.name, metric.help, labels);
}

Gauge& MetricRegistry::gauge(const MetricDescription& metric,
                             const MetricLabels& labels) {
  require_kind(metric, MetricSample::Kind::gauge);
  return gauge(metric.name, metric.help, labels);
}

Histogram& MetricRegistry::histogram(const MetricDescription& metric,
                                     const MetricLabels& labels) {
  require_kind(metric, MetricSample::Kind::histogram);
  return histogram(metric.name, metric.help, labels,
                   {metric.bounds.begin(), metric.bounds.end()});
}

std::unique_ptr<GaugeShare>
MetricRegistry::largest(const MetricDescription& metric,
                        const MetricLabels& labels) {
  auto& shown = gauge(metric, labels);
  const std::lock_guard guard{impl_->mutex};
  auto& shared = impl_->shared[&shown];
  if (!shared)
    shared = std::make_shared<SharedGauge>(shown);
  return std::make_unique<ShareCell>(shared);
}

std::vector<MetricSample> MetricRegistry::collect() const {
  std::vector<MetricSample> out;
  for (auto& family : impl_->registry.Collect())
    for (auto& metric : family.metric)
      out.push_back(sample_of(family, metric));
  return out;
}

} // namespace troupe

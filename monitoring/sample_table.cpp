#include "monitoring/sample_table.hpp"

#include "monitoring/exposition_text.hpp"
#include "monitoring/names.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

namespace troupe {

namespace {

bool is_whole(const MetricSample& sample) {
  if (sample.name.empty())
    return false;
  if (sample.kind == MetricSample::Kind::counter
      || sample.kind == MetricSample::Kind::gauge)
    return true;
  return sample.kind == MetricSample::Kind::histogram
         && sample.cumulative.size() == sample.bounds.size() + 1
         && rise(sample.bounds)
         && std::is_sorted(sample.cumulative.begin(), sample.cumulative.end());
}

/// A label of the sample's own gives way to ours, under the name that
/// Prometheus uses for that ("exported_…").
void make_way(MetricLabels& labels, const std::string& name) {
  if (auto node = labels.extract(name)) {
    node.key() = "exported_" + name;
    labels.insert(std::move(node));
  }
}

prometheus::MetricType type_of(MetricSample::Kind kind) {
  switch (kind) {
    case MetricSample::Kind::counter:
      return prometheus::MetricType::Counter;
    case MetricSample::Kind::histogram:
      return prometheus::MetricType::Histogram;
    default:
      return prometheus::MetricType::Gauge;
  }
}

prometheus::ClientMetric metric_of(const MetricSample& sample) {
  prometheus::ClientMetric out;
  for (auto& [name, value] : sample.labels)
    out.label.push_back({name, value});
  switch (sample.kind) {
    case MetricSample::Kind::counter:
      out.counter.value = sample.value;
      break;
    case MetricSample::Kind::gauge:
      out.gauge.value = sample.value;
      break;
    case MetricSample::Kind::histogram:
      out.histogram.sample_count = sample.cumulative.back();
      out.histogram.sample_sum = sample.sum;
      for (size_t i = 0; i < sample.bounds.size(); ++i)
        out.histogram.bucket.push_back(
          {sample.cumulative[i], sample.bounds[i]});
      out.histogram.bucket.push_back(
        {sample.cumulative.back(), std::numeric_limits<double>::infinity()});
  }
  return out;
}

using Parts = std::vector<std::shared_ptr<const std::vector<MetricSample>>>;

/// All samples of one name have one kind here; the first of equal series stays.
std::vector<prometheus::MetricFamily> merge(const Parts& parts,
                                            uint64_t& duplicates) {
  std::map<std::string_view, std::vector<const MetricSample*>> by_name;
  for (auto& part : parts)
    for (auto& sample : *part)
      by_name[sample.name].push_back(&sample);
  std::vector<prometheus::MetricFamily> out;
  for (auto& [name, samples] : by_name) {
    auto& family = out.emplace_back();
    family.name = samples.front()->name;
    family.help = samples.front()->help;
    family.type = type_of(samples.front()->kind);
    std::set<MetricLabels> seen;
    for (auto* sample : samples) {
      if (seen.insert(sample->labels).second)
        family.metric.push_back(metric_of(*sample));
      else
        ++duplicates;
    }
  }
  return out;
}

} // namespace

MetricSample sample_of(const prometheus::MetricFamily& family,
                       const prometheus::ClientMetric& metric) {
  MetricSample out;
  out.name = family.name;
  out.help = family.help;
  for (auto& label : metric.label)
    out.labels.emplace(label.name, label.value);
  switch (family.type) {
    case prometheus::MetricType::Counter:
      out.kind = MetricSample::Kind::counter;
      out.value = metric.counter.value;
      break;
    case prometheus::MetricType::Histogram:
      out.kind = MetricSample::Kind::histogram;
      out.sum = metric.histogram.sample_sum;
      for (auto& bucket : metric.histogram.bucket) {
        if (std::isfinite(bucket.upper_bound))
          out.bounds.push_back(bucket.upper_bound);
        out.cumulative.push_back(bucket.cumulative_count);
      }
      break;
    default:
      out.kind = MetricSample::Kind::gauge;
      out.value = metric.gauge.value;
  }
  return out;
}

SampleTable::SampleTable() : SampleTable(Limits{}) {}

SampleTable::SampleTable(Limits limits) : limits_(limits) {
  for (auto& metric :
       {metrics::metrics_conflicts_total, metrics::metrics_dropped_total})
    families_.emplace(metric.name, Family{metric.kind, metric.help});
}

void SampleTable::publish(const std::string& role,
                          std::vector<MetricSample> samples) {
  Drops drops;
  const bool forget = samples.empty();
  auto clean = labelled(role, std::move(samples), drops);
  std::shared_ptr<const Samples> old; // freed after the lock
  std::lock_guard guard{mutex_};
  count(drops);
  auto i = published_.find(role);
  if (i == published_.end() && !forget) {
    if (published_.size() >= limits_.roles) {
      drops_.limit += clean.size();
      return;
    }
    i = published_.emplace(role, std::make_shared<Samples>()).first;
  }
  if (i == published_.end())
    return;
  published_series_ -= i->second->size();
  admit(clean, limits_.series - published_series_);
  published_series_ += clean.size();
  old = std::exchange(i->second,
                      std::make_shared<const Samples>(std::move(clean)));
  if (forget)
    published_.erase(i);
}

void SampleTable::attach(const std::string& role,
                         const MetricRegistry& registry) {
  std::lock_guard guard{mutex_};
  attached_.emplace_back(role, &registry);
}

SampleTable::Samples SampleTable::labelled(const std::string& role,
                                           Samples samples, Drops& drops) {
  const auto label = valid_utf8(role);
  drops.malformed += std::erase_if(samples, [](const MetricSample& sample) {
    return !is_whole(sample);
  });
  for (auto& sample : samples) {
    sample.name = metric_name(sample.name);
    sample.labels = valid_labels(sample.labels);
    make_way(sample.labels, "role");
    if (sample.kind == MetricSample::Kind::histogram)
      make_way(sample.labels, "le");
    sample.labels["role"] = label;
  }
  return samples;
}

void SampleTable::admit(Samples& samples, size_t room) const {
  size_t admitted = 0;
  std::erase_if(samples, [&](MetricSample& sample) {
    auto i = families_.find(sample.name);
    if (i != families_.end() && i->second.kind != sample.kind) {
      ++drops_.conflict;
      return true;
    }
    if (admitted >= room
        || (i == families_.end() && families_.size() >= limits_.series)) {
      ++drops_.limit;
      return true;
    }
    if (i == families_.end())
      i = families_
            .emplace(sample.name, Family{sample.kind, valid_help(sample.help)})
            .first;
    sample.help = i->second.help;
    ++admitted;
    return false;
  });
}

SampleTable::Samples SampleTable::own_samples() const {
  auto counter = [](const MetricDescription& metric, MetricLabels labels,
                    uint64_t value) {
    MetricSample out;
    out.kind = metric.kind;
    out.name = metric.name;
    out.help = metric.help;
    out.labels = std::move(labels);
    out.value = static_cast<double>(value);
    return out;
  };
  return {
    counter(metrics::metrics_conflicts_total, {}, drops_.conflict),
    counter(metrics::metrics_dropped_total, {{"reason", "malformed"}},
            drops_.malformed),
    counter(metrics::metrics_dropped_total, {{"reason", "duplicate"}},
            drops_.duplicate),
    counter(metrics::metrics_dropped_total, {{"reason", "limit"}},
            drops_.limit),
  };
}

void SampleTable::count(const Drops& drops) const {
  drops_.conflict += drops.conflict;
  drops_.malformed += drops.malformed;
  drops_.duplicate += drops.duplicate;
  drops_.limit += drops.limit;
}

std::vector<prometheus::MetricFamily> SampleTable::Collect() const {
  std::unique_lock guard{mutex_};
  const auto attached = attached_;
  guard.unlock();
  Drops drops;
  std::vector<Samples> local;
  for (auto& [role, registry] : attached)
    local.push_back(labelled(role, registry->collect(), drops));
  guard.lock();
  count(drops);
  Parts parts;
  auto room = limits_.series - published_series_;
  for (auto& samples : local) {
    admit(samples, room);
    room -= samples.size();
    parts.push_back(std::make_shared<const Samples>(std::move(samples)));
  }
  for (auto& [role, samples] : published_)
    parts.push_back(samples);
  auto own = labelled("exporter", own_samples(), drops);
  admit(own, own.size());
  guard.unlock();
  parts.push_back(std::make_shared<const Samples>(std::move(own)));
  Drops found;
  auto families = merge(parts, found.duplicate);
  guard.lock();
  count(found);
  return families;
}

} // namespace troupe

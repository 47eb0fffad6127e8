#pragma once

#include "monitoring/metrics.hpp"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A series of a family as plain data.
MetricSample sample_of(const prometheus::MetricFamily& family,
                       const prometheus::ClientMetric& metric);

/// The series of all roles as one set of families, what a scrape answers.
/// Thread-safe; publish() never waits for a scrape to be merged.
class SampleTable : public prometheus::Collectable {
public:
  struct Limits {
    size_t roles = 4096;
    size_t series = 100'000; ///< of all roles together
  };

  SampleTable();
  explicit SampleTable(Limits limits);

  void publish(const std::string& role, std::vector<MetricSample> samples);
  void attach(const std::string& role, const MetricRegistry& registry);
  std::vector<prometheus::MetricFamily> Collect() const override;

private:
  using Samples = std::vector<MetricSample>;
  struct Family {
    MetricSample::Kind kind;
    std::string help;
  };
  struct Drops {
    uint64_t conflict = 0;
    uint64_t malformed = 0;
    uint64_t duplicate = 0;
    uint64_t limit = 0;
  };

  /// Cleans the samples and adds the label; no lock held.
  static Samples labelled(const std::string& role, Samples samples,
                          Drops& drops);
  /// Drops what conflicts with a kind seen before or passes `room`; locked.
  void admit(Samples& samples, size_t room) const;
  Samples own_samples() const; ///< locked
  void count(const Drops& drops) const;

  const Limits limits_;
  mutable std::mutex mutex_;
  /// A name keeps its first kind and help for the life of the table, so a
  /// family cannot change its type when a role leaves.
  mutable std::map<std::string, Family> families_;
  mutable Drops drops_;
  std::map<std::string, std::shared_ptr<const Samples>> published_;
  size_t published_series_ = 0;
  std::vector<std::pair<std::string, const MetricRegistry*>> attached_;
};

} // namespace troupe

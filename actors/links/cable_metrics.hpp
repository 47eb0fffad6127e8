#pragma once

#include "actors/links/cable.hpp"
#include "monitoring/metrics.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// How often a link over TCP is looked at, and how often it is shown.
inline constexpr std::chrono::milliseconds cable_period{250};
inline constexpr std::chrono::milliseconds cable_show_period{1'000};

/// What is told of a link over TCP. Most have nothing to tell, and there are as
/// many as pairs of roles: what is shown begins with what a doctor would look
/// at.
class CableMetrics {
public:
  /// Every cable_show_period.
  void show(const CableCounts& now, MetricRegistry& registry,
            const std::string& peer);
  /// Every cable_period: for how long it is stalled, if it is or ever was. Of
  /// several links to one peer the worst is shown.
  void look(const CableCounts& now, MetricRegistry& registry,
            const std::string& peer);
  void end();

private:
  struct Shown {
    Counter& delivered;
    Counter& busy;
    std::unique_ptr<GaugeShare> stalled;
  };

  void begin(MetricRegistry& registry, const std::string& peer);

  std::optional<Shown> shown_;
  CableCounts known_;
  StalledCable watch_;
};

} // namespace troupe

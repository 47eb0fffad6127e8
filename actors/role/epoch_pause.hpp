#pragma once

#include "actors/role/context.hpp"
#include "kernels/base/seconds_since.hpp"
#include "monitoring/names.hpp"

#include <optional>

namespace troupe {

/// Measures how long epoch changes keep a member from its work (EpochPause):
/// from the first proposal until it goes on. What comes before a member's first
/// epoch is no pause.
class EpochPauseWatch {
public:
  explicit EpochPauseWatch(MetricRegistry& registry)
    : seconds_(registry.histogram(metrics::epoch_pause_seconds)) {}

  void begin() {
    if (worked_ && !begin_)
      begin_ = Clock::now();
  }
  /// The epoch has begun, and this member works again.
  template <class Self>
  void end(Self* self, const RoleContext& context, const Fence& fence) {
    worked_ = true;
    if (!begin_)
      return;
    const auto pause = seconds_since(*begin_);
    begin_.reset();
    seconds_.observe(pause);
    self->send(context.coordinator, EpochPause{fence, context.role, pause});
  }

private:
  using Clock = SteadyClock;

  Histogram& seconds_;
  bool worked_ = false;
  std::optional<Clock::time_point> begin_;
};

} // namespace troupe

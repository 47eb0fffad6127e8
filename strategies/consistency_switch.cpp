#include "strategies/consistency_switch.hpp"

#include "strategies/require.hpp"

namespace troupe {

bool ConsistencySwitch::bound_only() const {
  return wanted_ && wanted_->async && now_.async;
}

bool ConsistencySwitch::is_now(const Consistency& mode) const {
  return mode.async == now_.async && mode.staleness == now_.staleness;
}

void ConsistencySwitch::ask(Consistency mode) {
  strategies::require(!pending() && !is_now(mode), "a switch to nothing new");
  wanted_ = mode;
  drain_.reset();
}

const Consistency& ConsistencySwitch::take_place() {
  strategies::require(pending(), "no switch was asked for");
  if (bound_only()) {
    now_.staleness = wanted_->staleness;
  } else {
    strategies::require(drain_.has_value(), "the old period has no end");
    now_ = now_.next(wanted_->async, wanted_->staleness, *drain_,
                     virtual_ranks_);
  }
  wanted_.reset();
  drain_.reset();
  return now_;
}

void ConsistencySwitch::start_over(const Consistency& at) {
  now_.step = at.step;
  now_.updates = at.updates;
  drain_.reset();
}

} // namespace troupe

#include "strategies/stage_course.hpp"

#include "strategies/require.hpp"

#include <utility>

namespace troupe {

void StageCourse::begin_epoch(uint64_t version) {
  phase_ = Phase::waiting;
  busy_ = paused_ = false;
  version_ = version;
}

void StageCourse::end_at(uint64_t step) {
  end_ = step;
  paused_ = false;
}

bool StageCourse::is_due() const {
  const bool at_rest = phase_ == Phase::waiting
                       && (paused_ || version_ >= end_);
  return !busy_ && !at_rest && phase_ != Phase::failed;
}

const StageAction& StageCourse::pass() const {
  strategies::require(phase_ == Phase::passing && next_ < actions_.size(),
                      "no pass is due");
  return actions_[next_];
}

void StageCourse::begin(std::vector<StageAction> actions, bool rounds) {
  strategies::require(phase_ == Phase::waiting && is_due(), "no step is due");
  actions_ = std::move(actions);
  next_ = 0;
  rounds_ = rounds;
  phase_ = owners_ == Owners::shards ? Phase::pulling : Phase::passing;
  busy_ = true;
}

void StageCourse::pulled() {
  strategies::require(phase_ == Phase::pulling && is_due(), "no pull is due");
  phase_ = Phase::passing;
}

void StageCourse::prepare() {
  strategies::require(phase_ == Phase::passing && is_due(), "no pass is due");
  busy_ = true;
}

void StageCourse::take() {
  strategies::require(is_due(), "nothing is due");
  busy_ = true;
  if (phase_ == Phase::passing)
    ++next_;
}

void StageCourse::done() {
  busy_ = false;
  if (phase_ == Phase::passing && next_ == actions_.size()) {
    if (owners_ == Owners::shards)
      phase_ = Phase::pushing;
    else if (owners_ == Owners::peers)
      phase_ = Phase::giving;
    else
      summed();
  } else if (phase_ == Phase::giving) {
    phase_ = Phase::adding;
  } else if (phase_ == Phase::adding) {
    phase_ = Phase::taking;
  } else if (phase_ == Phase::taking) {
    summed();
  } else if (phase_ == Phase::summing) {
    phase_ = Phase::scaling;
  } else if (phase_ == Phase::updating || phase_ == Phase::pushing) {
    ++version_;
    phase_ = Phase::waiting;
  }
}

void StageCourse::summed() {
  phase_ = rounds_ ? Phase::summing : Phase::updating;
}

void StageCourse::scaled(bool last_round) {
  strategies::require(phase_ == Phase::scaling, "no scalars are due");
  phase_ = last_round ? Phase::updating : Phase::summing;
}

uint64_t StageCourse::next_step() const {
  return version_ + (phase_ == Phase::waiting ? 0 : 1);
}

} // namespace troupe

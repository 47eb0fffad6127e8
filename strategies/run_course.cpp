#include "strategies/run_course.hpp"

#include "strategies/require.hpp"

#include <utility>

namespace troupe {

bool RunCourse::is_ending(uint64_t steps) const {
  return !is_running() || steps >= end_ || asked_last();
}

RunCourse::Stopped RunCourse::stop(const std::string& why, uint64_t steps) {
  if (is_stopped() || is_over())
    return Stopped::before;
  const bool ending = is_ending(steps);
  why_ = why;
  if (ending)
    return Stopped::as_is;
  stage_ = Stage::pausing;
  return Stopped::pauses;
}

const std::string& RunCourse::why() const {
  strategies::require(is_stopped(), "nobody stopped this run");
  return *why_;
}

void RunCourse::end_at(uint64_t step) {
  strategies::require(stage_ == Stage::pausing,
                      "only a run that pauses ends early");
  end_ = step;
  stage_ = Stage::ending;
}

bool RunCourse::ask_last(uint64_t epoch, uint64_t steps) {
  if (is_over() || std::exchange(asked_epoch_, epoch) == epoch)
    return false;
  end_ = steps;
  if (stage_ == Stage::pausing)
    stage_ = Stage::ending;
  return true;
}

bool RunCourse::conclude(bool committed) {
  if (is_over() || stage_ == Stage::pausing || !committed)
    return false;
  stage_ = Stage::concluding;
  return true;
}

bool RunCourse::begin_outputs() {
  return !std::exchange(makes_outputs_, true);
}

} // namespace troupe

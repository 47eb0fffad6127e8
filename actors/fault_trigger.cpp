#include "actors/fault_trigger.hpp"

#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace troupe {

void FaultTrigger::arm(StepPhase phase, uint32_t after) {
  after_ = phase == StepPhase::at_once ? 0 : after;
  armed_ = phase;
  pass(StepPhase::at_once);
}

void FaultTrigger::strike() {
  if (after_ > 0) {
    --after_;
    return;
  }
  const auto phase = armed_.load();
  armed_ = StepPhase::none;
  if (own_process_)
    ::kill(getpid(), SIGKILL);
  throw std::runtime_error("killed in phase " + to_string(phase)
                           + ", as was asked for");
}

} // namespace troupe

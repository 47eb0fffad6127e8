#include "actors/compute/fault_trigger.hpp"

#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace troupe {
namespace {

/// Some twenty steps of a small model.
constexpr std::chrono::milliseconds slowness{25};

} // namespace

void FaultTrigger::arm(const Fault& fault) {
  if (!obeys_)
    return;
  armed_ = StepPhase::none;
  kind_ = fault.kind;
  after_ = fault.phase == StepPhase::at_once ? 0 : fault.after;
  amount_ = fault.amount;
  armed_ = fault.phase;
  pass(StepPhase::at_once);
}

std::chrono::milliseconds FaultTrigger::delay() const {
  const auto until = slow_until_.load(std::memory_order_relaxed);
  if (until == 0 || Clock::now().time_since_epoch().count() > until)
    return std::chrono::milliseconds{0};
  return slowness;
}

void FaultTrigger::strike() {
  if (after_ > 0) {
    --after_;
    return;
  }
  const auto phase = armed_.exchange(StepPhase::none);
  const auto kind = kind_.load();
  if (!own_process_)
    throw std::runtime_error("killed in phase " + to_string(phase)
                             + ", as was asked for");
  if (kind == FaultKind::kill) {
    ::kill(getpid(), SIGKILL);
  } else if (kind == FaultKind::stop) {
    // Somebody else wakes it. Sent to this thread, so that it says nothing more
    // before all stand still; one to the process may reach another thread
    // first.
    std::raise(SIGSTOP);
  } else if (kind == FaultKind::slow) {
    const auto until = Clock::now() + std::chrono::milliseconds{amount_.load()};
    slow_until_ = until.time_since_epoch().count();
  } else if (kind == FaultKind::nan) {
    harm_ = Harm::nan; // a thread of the executor does it
    return;
  } else if (kind == FaultKind::device) {
    harm_ = Harm::failure;
    return;
  } else if (kind == FaultKind::memory) {
    harm_ = Harm::memory;
    return;
  } else if (kind == FaultKind::cut_control) {
    if (cut_control)
      cut_control();
    return; // there is nobody to tell any more
  } else if (cut) {
    cut(amount_);
  }
  if (struck)
    struck(phase);
}

FaultTrigger::Harm FaultTrigger::harm() {
  const auto harm = harm_.exchange(Harm::none);
  if (harm == Harm::nan && struck)
    struck(StepPhase::compute);
  return harm;
}

} // namespace troupe

#include "strategies/worker_steps.hpp"

#include <utility>

namespace troupe {
namespace {

constexpr uint64_t no_step = ~uint64_t{0};

} // namespace

void WorkerSteps::give_up(Actions& out) {
  if (!std::exchange(begun_, false))
    return;
  out.push_back(GiveUp{});
  computing_ = false;
  ++turn_;
}

WorkerSteps::Actions WorkerSteps::seal() {
  Actions out;
  give_up(out);
  phase_ = Phase::sealed;
  return out;
}

WorkerSteps::Actions WorkerSteps::forget() {
  ++turn_;
  if (std::exchange(computing_, false))
    return {Replace{}};
  return {};
}

WorkerSteps::Actions WorkerSteps::begin_epoch(uint64_t version, uint64_t end) {
  paused_ = false;
  end_ = end;
  Actions out;
  if (computing_ && computing_step_ == version) {
    phase_ = Phase::computing;
    return out;
  }
  if (!nodes_.anything_left())
    out.push_back(Push{});
  pull_next(out);
  return out;
}

void WorkerSteps::pull(uint64_t version, Actions& out) {
  phase_ = Phase::pulling;
  give_up(out); // k of n: of a version that is gone
  wanted_ = version;
  out.push_back(Pull{version, computing_});
}

/// The version that the rest of this step needs, or the next one.
void WorkerSteps::pull_next(Actions& out) {
  pull(nodes_.step() + (nodes_.anything_left() ? 0 : 1), out);
}

WorkerSteps::Actions WorkerSteps::overtaken(uint64_t version) {
  Actions out;
  pull(version, out);
  return out;
}

WorkerSteps::Actions WorkerSteps::some_arrived(bool usable) {
  const auto& nodes = nodes_.of(wanted_);
  if (!early_ || !usable || computing_ || paused_ || wanted_ >= end_
      || nodes.empty())
    return {};
  begun_ = true;
  return {Begin{wanted_, nodes, start(wanted_)}};
}

/// All of version s + 1 prove that step s is committed.
WorkerSteps::Actions WorkerSteps::all_arrived(bool abandoned) {
  Actions out;
  if (wanted_ != nodes_.step()) {
    nodes_.begin_step(wanted_);
    out.push_back(NextStep{});
  }
  if (wanted_ < end_ && !paused_) {
    compute(abandoned, out);
    return out;
  }
  give_up(out);
  phase_ = Phase::idle;
  return out;
}

void WorkerSteps::compute(bool abandoned, Actions& out) {
  if (!nodes_.anything_left()) { // others have all of it
    pull_next(out);
    return;
  }
  phase_ = Phase::computing;
  const auto& nodes = nodes_.compute();
  if (abandoned)
    give_up(out);
  const bool begun = std::exchange(begun_, false);
  const auto turn = begun ? turn_ : start(nodes_.step());
  out.push_back(Compute{nodes_.step(), nodes, turn, begun});
}

uint64_t WorkerSteps::start(uint64_t step) {
  computing_ = true;
  computing_step_ = step;
  return ++turn_;
}

bool WorkerSteps::finished(bool abandoned) {
  computing_ = false;
  if (abandoned)
    begun_ = false;
  return !abandoned;
}

WorkerSteps::Actions WorkerSteps::computed() {
  if (phase_ != Phase::computing)
    return {}; // sealed meanwhile: the next epoch decides what is sent
  Actions out;
  if (!nodes_.anything_left())
    out.push_back(Push{});
  pull_next(out);
  return out;
}

WorkerSteps::Actions WorkerSteps::pull_lease(uint64_t lease) {
  Actions out;
  give_up(out);
  wanted_ = lease;
  out.push_back(Pull{lease, computing_});
  return out;
}

uint64_t WorkerSteps::compute_lease() {
  return start(no_step);
}

WorkerSteps::Actions WorkerSteps::pause() {
  Actions out;
  give_up(out);
  paused_ = true;
  return out;
}

uint64_t WorkerSteps::next_step() const {
  return phase_ == Phase::computing ? computing_step_ + 1 : wanted_;
}

WorkerSteps::Actions WorkerSteps::end_at(uint64_t step) {
  Actions out;
  end_ = step;
  paused_ = false;
  if (phase_ == Phase::idle && wanted_ < end_)
    compute(false, out);
  return out;
}

} // namespace troupe

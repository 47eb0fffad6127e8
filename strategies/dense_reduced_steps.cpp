#include "strategies/dense_reduced_steps.hpp"

#include "strategies/require.hpp"

#include <utility>

namespace troupe {
namespace {

constexpr uint64_t no_version = ~uint64_t{0};

} // namespace

DenseReducedSteps::Actions DenseReducedSteps::begin_epoch(Epoch epoch) {
  epoch_ = std::move(epoch);
  paused_ = false;
  wanted_ = no_version; // what was pulled before is of the old epoch
  rows_here_ = false;
  Actions out;
  begin_first_step(out);
  return out;
}

void DenseReducedSteps::begin_first_step(Actions& out) {
  if (!epoch_.lost.empty()) {
    phase_ = Phase::repairing;
    wanted_ = epoch_.lost.front().step;
    rows_here_ = false;
    out.push_back(PullLost{epoch_.lost.front(), epoch_.version});
  } else if (epoch_.version < epoch_.end && !nodes_.anything_left()) {
    finish_step(out); // it has all its sums already
  } else {
    phase_ = Phase::waiting;
    pull(epoch_.version, out);
  }
}

void DenseReducedSteps::pull(uint64_t version, Actions& out) {
  wanted_ = version;
  rows_here_ = false;
  out.push_back(Pull{version});
}

DenseReducedSteps::Actions DenseReducedSteps::rows_arrived() {
  rows_here_ = true;
  if (phase_ == Phase::repairing)
    return {ComputeLost{epoch_.lost.front(), epoch_.version}};
  Actions out;
  go_on(out);
  return out;
}

/// Where rows and dense variables are there: the step before is over, and
/// nobody asks for what was computed of it.
void DenseReducedSteps::go_on(Actions& out) {
  if (phase_ != Phase::waiting || !rows_here_ || epoch_.version != wanted_)
    return;
  if (wanted_ != nodes_.step()) {
    nodes_.begin_step(wanted_);
    out.push_back(NextStep{});
  }
  if (wanted_ < epoch_.end && !paused_)
    compute(out);
  else
    phase_ = Phase::idle;
}

void DenseReducedSteps::compute(Actions& out) {
  phase_ = Phase::computing;
  out.push_back(Compute{nodes_.step(), nodes_.compute()});
  if (epoch_.prefetches)
    pull(nodes_.step() + 1, out);
}

/// What is computed while it is sealed, the next epoch decides about.
DenseReducedSteps::Actions DenseReducedSteps::computed() {
  Actions out;
  if (phase_ == Phase::computing)
    finish_step(out);
  return out;
}

DenseReducedSteps::Actions DenseReducedSteps::lost_computed() {
  strategies::require(!epoch_.lost.empty(), "no leaves are lost");
  epoch_.lost.erase(epoch_.lost.begin());
  Actions out;
  begin_first_step(out);
  return out;
}

/// Rows go to their shards, and come back as the next version; the dense sums
/// to the group meanwhile.
void DenseReducedSteps::finish_step(Actions& out) {
  phase_ = Phase::waiting;
  const auto step = nodes_.step();
  out.push_back(Finish{step});
  if (wanted_ != step + 1)
    pull(step + 1, out);
}

DenseReducedSteps::Actions DenseReducedSteps::reduced(uint64_t version) {
  epoch_.version = version;
  Actions out;
  go_on(out);
  return out;
}

uint64_t DenseReducedSteps::next_step() const {
  if (phase_ == Phase::computing)
    return nodes_.step() + 1;
  return phase_ == Phase::repairing ? epoch_.version : wanted_;
}

DenseReducedSteps::Actions DenseReducedSteps::end_at(uint64_t step) {
  Actions out;
  epoch_.end = step;
  paused_ = false;
  if (phase_ == Phase::idle && wanted_ < step)
    compute(out);
  return out;
}

} // namespace troupe

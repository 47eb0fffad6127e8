#include "apps/chaos_plan.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Few enough that a phase comes so often in a step or two.
constexpr uint64_t most_passes = 3;
constexpr uint64_t least_steps_between = 10;
constexpr uint64_t most_steps_between = 40;

} // namespace

ChaosPlan::ChaosPlan(const Plan& plan, uint64_t seed)
  : workers_(static_cast<uint32_t>(plan.of_kind(RoleKind::worker).size())),
    owners_(plan.owner_kind == RoleKind::shard ? plan.owners : 0),
    chain_(plan.chain),
    pair_(plan.dense_reduced && workers_ == 2),
    random_(seed) {
  using enum StepPhase;
  if (owners_ == 0) {
    for (auto phase : {at_once, compute, push, reduce})
      cases_.push_back({phase, RoleKind::worker});
  } else {
    for (auto phase : {pull, compute, push})
      cases_.push_back({phase, RoleKind::worker});
    for (auto phase : {pull, reduce, copy})
      cases_.push_back({phase, RoleKind::shard});
    if (chain_ > 1)
      cases_.push_back({forward, RoleKind::shard});
  }
  cases_.push_back({at_once, RoleKind::coordinator});
  if (workers_ + owners_ > 1) {
    cases_.push_back({seal, RoleKind::coordinator});
    cases_.push_back({seal, RoleKind::worker});
    if (owners_ > 0)
      cases_.push_back({seal, RoleKind::shard});
  }
}

uint64_t ChaosPlan::draw(uint64_t low, uint64_t high) {
  return low + random_() % (high - low + 1);
}

RoleId ChaosPlan::any(RoleKind kind) {
  if (kind == RoleKind::coordinator)
    return {kind, 0};
  const auto count = kind == RoleKind::shard ? owners_ * chain_ : workers_;
  return {kind, static_cast<uint32_t>(draw(0, count - 1))};
}

/// Workers count as chains of one, and so does the coordinator; but two that
/// alone keep the dense variables are a chain.
uint32_t ChaosPlan::chain_of(RoleId role) const {
  if (role.kind == RoleKind::coordinator)
    return owners_ + workers_;
  return role.kind == RoleKind::shard ? role.index % owners_
                                      : owners_ + (pair_ ? 0 : role.index);
}

ChaosPlan::Strike ChaosPlan::next(uint64_t most) {
  using enum StepPhase;
  Strike strike;
  strike.steps_before = draw(least_steps_between, most_steps_between);
  auto [phase, kind] = cases_[next_++ % cases_.size()];
  if (most < 2 && (phase == seal || phase == copy)) {
    phase = at_once; // these take two deaths
  }
  const auto role = any(kind);
  if (phase == copy) {
    strike.wishes.push_back({role, {at_once, copy}, 0});
    return strike;
  }
  strike.wishes.push_back(
    {role,
     {phase},
     phase == seal ? 0 : static_cast<uint32_t>(draw(0, most_passes))});
  if (phase != seal)
    return strike;
  auto other = role;
  while (chain_of(other) == chain_of(role))
    other = any(owners_ > 0 && draw(0, 1) == 1 ? RoleKind::shard
                                               : RoleKind::worker);
  strike.wishes.push_back({other, {at_once}, 0});
  return strike;
}

bool ChaosPlan::redirect(Strike& strike) const {
  auto& role = strike.wishes.front().role;
  if (role.kind != RoleKind::shard || chain_ < 2)
    return false;
  role.index = (role.index + owners_) % (owners_ * chain_);
  return true;
}

} // namespace troupe

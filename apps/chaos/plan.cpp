#include "apps/chaos/plan.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Few enough that a phase comes so often in a step or two.
constexpr uint64_t max_passes = 3;
constexpr uint64_t min_steps_between = 10;
constexpr uint64_t max_steps_between = 40;
/// One pause in three lasts long enough that the role is left out.
constexpr uint64_t min_pause_ms = 50;
constexpr uint64_t min_absence_ms = 1'500;
constexpr uint64_t max_absence_ms = 4'000;
constexpr uint64_t min_slow_ms = 200;
constexpr uint64_t max_slow_ms = 1'000;
constexpr uint64_t max_links = 64;   ///< that a number tells apart
constexpr uint64_t min_bad_ms = 100; ///< of a bad link
constexpr uint64_t max_bad_ms = 2'000;
constexpr uint64_t min_full_ms = 500; ///< of a disk
constexpr uint64_t max_full_ms = 2'000;
constexpr uint64_t min_disk_ms = 1'000; ///< of a slow one
constexpr uint64_t max_disk_ms = 4'000;
constexpr uint64_t max_wait_ms = 300; ///< of a signal, after a step
constexpr uint64_t max_unreadable_ms = 1'000;

constexpr uint64_t min_away_ms = 200; ///< of a host
constexpr uint64_t max_away_ms = 3'000;
constexpr uint64_t min_cut_ms = 500;
constexpr uint64_t max_cut_ms = 30'000;
constexpr uint64_t max_cables = 1'000; ///< that a number tells apart

} // namespace

uint64_t ChaosStrike::faults() const {
  uint64_t count = 0;
  for (const auto& wish : wishes)
    count += wish.phases.size();
  return count;
}

ChaosPlan::ChaosPlan(const Plan& plan, uint64_t seed,
                     std::vector<ChaosKind> kinds)
  : computing_(plan.computing()),
    workers_(static_cast<uint32_t>(plan.of_kind(computing_).size())),
    owners_(plan.owner_kind == RoleKind::shard ? plan.owners : 0),
    readers_(static_cast<uint32_t>(plan.of_kind(RoleKind::reader).size())),
    chain_(plan.chain),
    pair_(plan.dense_reduced && workers_ == 2),
    paired_(plan.paired),
    kinds_(std::move(kinds)),
    random_(seed) {
  for (auto kind : kinds_) {
    auto& cases = cases_[static_cast<size_t>(kind)];
    check(kind, plan);
    if (kind == ChaosKind::kill)
      add_deaths(cases);
    else
      add_survived(kind, cases);
    if (cases.empty())
      throw UsageError("--kinds " + to_string(kind)
                       + ": the job has no two processes that are linked; "
                         "give it more workers");
  }
  add_turns_of_deaths();
}

void ChaosPlan::check(ChaosKind kind, const Plan& plan) const {
  if (!is_of_workers(kind))
    return;
  const auto name = "--kinds " + to_string(kind);
  if (computing_ != RoleKind::worker)
    throw UsageError(name + ": strikes workers, and the job's --strategy "
                     + to_string(plan.strategy) + " has none; leave it out");
  if (paired_)
    throw UsageError(name
                     + ": strikes workers that have whole leaves as yet, "
                       "and those of the job's --strategy "
                     + to_string(plan.strategy) + " have not; leave it out");
}

void ChaosPlan::add_turns_of_deaths() {
  if (kinds_.size() < 2)
    return;
  constexpr auto kill = static_cast<size_t>(ChaosKind::kill);
  const auto shared = [&](const Case& death) {
    for (size_t kind = 0; kind < cases_.size(); ++kind)
      for (const auto& other : cases_[kind])
        if (kind != kill && other.phase == death.phase)
          return true;
    return false;
  };
  for (const auto& death : cases_[kill])
    if (!shared(death))
      kinds_.push_back(ChaosKind::kill);
}

void ChaosPlan::add_deaths(std::vector<Case>& cases) const {
  using enum StepPhase;
  if (owners_ == 0) {
    for (auto phase : {at_once, compute, push, reduce})
      cases.push_back({phase, computing_});
  } else {
    for (auto phase : {pull, compute, push})
      cases.push_back({phase, computing_});
    for (auto phase : {pull, reduce})
      cases.push_back({phase, RoleKind::shard});
    if (!paired_ || chain_ > 1) // who has its memory is sent no copy
      cases.push_back({copy, RoleKind::shard});
    if (chain_ > 1)
      cases.push_back({forward, RoleKind::shard});
  }
  cases.push_back({at_once, RoleKind::coordinator});
  if (readers_ > 0)
    cases.push_back({at_once, RoleKind::reader});
  if (workers_ + owners_ > 1)
    cases.push_back({seal, RoleKind::coordinator});
  if (paired_ ? workers_ >= 2 * chain_ : workers_ + owners_ > 1) {
    cases.push_back({seal, computing_});
    if (owners_ > 0)
      cases.push_back({seal, RoleKind::shard});
  }
}

void ChaosPlan::add_survived(ChaosKind kind, std::vector<Case>& cases) const {
  using enum StepPhase;
  const bool alone = owners_ + workers_ < 2;
  if (is_of_hosts(kind)) {
    cases.push_back({at_once, computing_});
    if (owners_ > 0)
      cases.push_back({at_once, RoleKind::shard});
    cases.push_back({at_once, RoleKind::coordinator});
    return;
  }
  if (kind == ChaosKind::full_disk || kind == ChaosKind::slow_disk
      || ends_job(kind)) {
    cases.push_back({at_once, RoleKind::coordinator});
  } else if (kind == ChaosKind::slow || is_of_workers(kind)) {
    cases.push_back({compute, computing_});
  } else if (is_of_proxy(kind)) {
    if (!alone || !is_of_links(kind))
      cases.push_back({at_once, computing_});
    if (owners_ > 0 && !(paired_ && kind == ChaosKind::slow_control))
      cases.push_back({at_once, RoleKind::shard}); // a process has one proxy
  } else if (owners_ > 0) {
    for (auto phase : {pull, compute, push})
      cases.push_back({phase, computing_});
    for (auto phase : {pull, reduce})
      cases.push_back({phase, RoleKind::shard});
    if (chain_ > 1)
      cases.push_back({forward, RoleKind::shard});
  } else if (!alone || kind != ChaosKind::cut) {
    for (auto phase : {at_once, compute, push, reduce})
      cases.push_back({phase, computing_});
  }
  if (kind == ChaosKind::stop)
    cases.push_back({at_once, RoleKind::coordinator});
  if (kind == ChaosKind::stop && readers_ > 0)
    cases.push_back({at_once, RoleKind::reader});
}

uint64_t ChaosPlan::draw(uint64_t low, uint64_t high) {
  return low + random_() % (high - low + 1);
}

uint32_t ChaosPlan::draw_amount(ChaosKind kind) {
  switch (kind) {
    case ChaosKind::stop:
      return static_cast<uint32_t>(draw(0, 2) == 0
                                     ? draw(min_absence_ms, max_absence_ms)
                                     : draw(min_pause_ms, borne_pause_ms));
    case ChaosKind::slow:
      return static_cast<uint32_t>(draw(min_slow_ms, max_slow_ms));
    case ChaosKind::stall:
    case ChaosKind::one_way:
    case ChaosKind::throttle:
    case ChaosKind::slow_control:
      return static_cast<uint32_t>(draw(min_bad_ms, max_bad_ms));
    case ChaosKind::full_disk:
      return static_cast<uint32_t>(draw(min_full_ms, max_full_ms));
    case ChaosKind::slow_disk:
      return static_cast<uint32_t>(draw(min_disk_ms, max_disk_ms));
    case ChaosKind::signal_all:
      return static_cast<uint32_t>(draw(0, max_wait_ms));
    case ChaosKind::unreadable:
      return static_cast<uint32_t>(draw(0, max_unreadable_ms));
    case ChaosKind::host_kill:
    case ChaosKind::host_slow:
      return static_cast<uint32_t>(draw(min_away_ms, max_away_ms));
    case ChaosKind::host_cut: // short ones more often than long ones
      return static_cast<uint32_t>(
        draw(min_cut_ms, draw(min_cut_ms, max_cut_ms)));
    case ChaosKind::cut:
      return static_cast<uint32_t>(draw(0, max_links));
    default:
      return 0;
  }
}

RoleId ChaosPlan::any(RoleKind kind) {
  if (kind == RoleKind::coordinator)
    return {kind, 0};
  const auto count = kind == RoleKind::shard ? owners_ * (paired_ ? 1 : chain_)
                     : kind == RoleKind::reader ? readers_
                                                : workers_;
  return {kind, static_cast<uint32_t>(draw(0, count - 1))};
}

bool ChaosPlan::apart(RoleId one, RoleId other) const {
  const bool leads = one.kind == RoleKind::coordinator
                     || other.kind == RoleKind::coordinator;
  if (!paired_ || leads)
    return chain_of(one) != chain_of(other);
  // A slice's replicas are in processes that follow one another.
  const auto ahead = (other.index + workers_ - one.index) % workers_;
  return std::min(ahead, workers_ - ahead) >= chain_;
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
  auto strike = draw_strike(most);
  for (auto& wish : strike.wishes)
    if (wish.kind == ChaosKind::memory
        && !lacked_memory_.insert(wish.role).second)
      wish.kind = ChaosKind::kill;
  for (const auto& wish : strike.wishes)
    if (wish.kind == ChaosKind::kill)
      lacked_memory_.erase(wish.role);
  return strike;
}

ChaosPlan::Strike ChaosPlan::draw_strike(uint64_t most) {
  using enum StepPhase;
  Strike strike;
  strike.steps_before = draw(min_steps_between, max_steps_between);
  const auto what = kinds_[next_kind_++ % kinds_.size()];
  const auto& cases = cases_[static_cast<size_t>(what)];
  auto [phase,
        kind] = cases[next_case_[static_cast<size_t>(what)]++ % cases.size()];
  if (most < 2 && (phase == seal || phase == copy)) {
    phase = at_once; // these take two deaths
  }
  const auto role = any(kind);
  if (phase == copy) {
    strike.wishes.push_back({role, {at_once, copy}, 0});
    return strike;
  }
  const auto after = phase == seal ? 0 : draw(0, max_passes);
  strike.wishes.push_back(
    {role, {phase}, static_cast<uint32_t>(after), what, draw_amount(what)});
  if (what == ChaosKind::host_cut)
    strike.wishes.front().cable = static_cast<uint32_t>(draw(0, max_cables));
  if (phase != seal)
    return strike;
  auto other = role;
  while (!apart(role, other))
    other = any(owners_ > 0 && draw(0, 1) == 1 ? RoleKind::shard : computing_);
  strike.wishes.push_back({other, {at_once}, 0});
  return strike;
}

bool ChaosPlan::redirect(Strike& strike) const {
  auto& role = strike.wishes.front().role;
  if (role.kind != RoleKind::shard || chain_ < 2)
    return false;
  role.index = paired_ ? (role.index + 1) % owners_
                       : (role.index + owners_) % (owners_ * chain_);
  return true;
}

} // namespace troupe

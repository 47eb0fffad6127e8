#include "strategies/epoch_plan.hpp"

#include "strategies/free_rows.hpp"
#include "strategies/takeover.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {
namespace {

std::vector<std::vector<uint32_t>> first_chains(const Plan& plan) {
  std::vector<std::vector<uint32_t>> out;
  for (const auto& slice : plan.slices)
    out.push_back(plan.replicas(slice.id));
  return out;
}

/// Stages that hold the same layers are a step apart at most (PROTOCOL 9): who
/// is further behind has lost what it kept.
void leave_out_lost(std::vector<ChainBook::Held>& held) {
  uint64_t newest = 0;
  for (const auto& one : held)
    newest = std::max(newest, one.newest);
  std::erase_if(held, [newest](const ChainBook::Held& one) {
    return one.newest + 1 < newest;
  });
}

/// A head serves those behind it; pipelines go on with what each stage has, and
/// `last` are the tails.
std::vector<Restorable> restorable(const std::vector<SliceState>& heads,
                                   const std::vector<SliceState>& last) {
  std::vector<Restorable> out;
  for (size_t i = 0; i < heads.size(); ++i)
    out.push_back({heads[i].oldest, last[i].newest});
  return out;
}

LeaseSet leases_of(const SliceState& state) {
  return {state.lease_floor,
          {state.leases_above.begin(), state.leases_above.end()}};
}

} // namespace

uint32_t owner_key(RoleId owner) {
  const uint32_t workers = uint32_t{1} << 31;
  return owner.index + (owner.kind == RoleKind::worker ? workers : 0);
}

EpochPlan::EpochPlan(const Plan& plan, Options options)
  : plan_(plan),
    options_(options),
    chains_(keeps_slices(plan.owner_kind)
              ? first_chains(plan)
              : std::vector<std::vector<uint32_t>>{},
            options.decides) {}

bool EpochPlan::viable(const std::set<RoleId>& present) const {
  const auto least = std::max(1u, options_.min_workers);
  std::set<uint32_t> shards;
  uint32_t workers = 0;
  uint32_t parts = 0; // of the model
  for (auto role : present) {
    workers += role.kind == RoleKind::worker ? 1 : 0;
    parts += has_model_part(role.kind) ? 1 : 0;
    if (role.kind == plan_.owner_kind)
      shards.insert(role.index);
  }
  // Nobody else computes what a stage or a member does.
  if (has_model_part(plan_.computing()) && parts != plan_.mesh().members())
    return false;
  if (has_model_part(plan_.computing()))
    return is_staged() || chains_.viable(shards);
  // One that is left has all that was committed, or says that it has not.
  return is_served()
           ? workers >= least && chains_.viable(shards)
           : plan_.of_kind(RoleKind::worker).size() > 1 && workers >= least;
}

bool EpochPlan::begins(const std::set<RoleId>& present) const {
  const auto shards = plan_.of_kind(RoleKind::shard);
  return options_.min_workers > 0 && viable(present)
         && std::ranges::all_of(shards, [&](const RolePlan& shard) {
              return present.contains(shard.role);
            });
}

void EpochPlan::spread(const std::map<std::string, std::set<RoleId>>& hosts) {
  if (plan_.chain < 2 || hosts.size() < 2)
    return;
  std::map<uint32_t, std::string> host_of;
  for (const auto& [host, roles] : hosts)
    for (auto role : roles)
      if (role.kind == RoleKind::shard)
        host_of[role.index] = host;
  std::vector<std::vector<uint32_t>> wanted;
  std::vector<uint64_t> bytes;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    wanted.push_back(chains_.wanted(slice));
    bytes.push_back(plan_.slices[slice].bytes());
  }
  const auto apart = spread_over_hosts(wanted, bytes, host_of);
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    if (apart[slice] != wanted[slice])
      chains_.want(slice, apart[slice]);
}

void EpochPlan::begin(const Seals& seals, uint64_t epoch) {
  ranks_.clear();
  computed_.clear();
  sums_.clear();
  reduced_.clear();
  std::vector<RoleId> workers;
  for (const auto& [role, seal] : seals)
    if (role.kind == RoleKind::worker)
      workers.push_back(role);
  const auto count = static_cast<uint32_t>(workers.size());
  for (uint32_t i = 0; i < count; ++i) {
    const auto& seal = seals.at(workers[i]);
    ranks_.push_back(
      {workers[i], ranks_of_worker(i, count, plan_.virtual_ranks)});
    sums_[workers[i]] = {seal.version, seal.nodes};
    if (!seal.slices.empty())
      reduced_[workers[i]] = {seal.slices.front().oldest,
                              seal.slices.front().newest};
    auto& step = computed_[seal.version];
    step.insert(step.end(), seal.nodes.begin(), seal.nodes.end());
  }
  if (!is_served())
    return;
  std::set<uint32_t> shards;
  std::vector<std::vector<ChainBook::Held>> held(chains_.slices());
  std::map<std::pair<uint32_t, uint32_t>, const SliceState*> states;
  for (const auto& [role, seal] : seals) {
    if (role.kind != plan_.owner_kind)
      continue;
    shards.insert(role.index);
    for (const auto& slice : seal.slices)
      if (slice.slice < held.size()) {
        // A version of a slice has the same bits with all stages that hold it.
        held[slice.slice].push_back(
          {role.index, is_staged() ? 0 : slice.epoch, slice.newest});
        states[{slice.slice, role.index}] = &slice;
      }
  }
  stages_ = std::ranges::count_if(seals, [](const auto& seal) {
    return has_model_part(seal.first.kind);
  });
  for (auto& of_slice : held)
    if (is_staged())
      leave_out_lost(of_slice);
  const auto before = chains_;
  chains_.decide(shards, held, epoch);
  auto state = [&](uint32_t slice, uint32_t shard) {
    auto known = states.find({slice, shard});
    auto out = known == states.end() ? SliceState{} : *known->second;
    out.slice = slice;
    return out;
  };
  heads_.clear();
  tails_.clear();
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    const auto& replicas = chains_.chain(slice).replicas;
    if (!plan_.on_shards(slice))
      continue;
    if (replicas.empty()) {
      heads_.push_back(state(slice, ~uint32_t{0}));
      tails_.push_back(heads_.back());
    } else {
      heads_.push_back(state(slice, replicas.front()));
      tails_.push_back(state(slice, replicas.back()));
    }
  }
  undecided_ = lacks_decision(before);
}

/// Nobody is told of a decision before all replicas of slice 0 have it. One
/// that was learning then, and has not had all as a replica since, may lack it.
bool EpochPlan::lacks_decision(const ChainBook& before) const {
  if (!options_.decides)
    return false;
  const auto& replicas = chains_.chain(0).replicas;
  const auto& first = heads_.front();
  return !replicas.empty() && !before.proven(0, replicas.front(), first.epoch)
         && std::ranges::any_of(heads_, [&](const SliceState& head) {
              return head.newest > first.newest;
            });
}

std::set<RoleId> EpochPlan::awaited(const Seals& seals,
                                    const Known& known) const {
  std::set<RoleId> out;
  EpochPlan next{*this};
  next.begin(seals, 0);
  const bool async = known.period.async;
  const auto& told_another = known.told_another;
  auto version = async ? known.period.updates : known.committed;
  if (!async) // of a slice that is past a version it may be gone
    for (const auto& head : next.heads_)
      version = std::max(version, head.oldest);
  const auto leases = acknowledged(known);
  const auto lacks = [&](const SliceState& head) {
    return async ? lacking(leases, leases_of(head)) > 0
                 : head.slice == 0 && next.undecided_;
  };
  for (const auto& head : next.heads_)
    if (head.newest < version || lacks(head)
        || (told_another && !lives(head.slice, seals, *told_another)))
      for (auto shard : chains_.chain(head.slice).replicas)
        if (const RoleId role{plan_.owner_kind, shard}; !seals.contains(role))
          out.insert(role);
  if (told_another && (!is_served() || plan_.dense_reduced)
      && !next.keeps_layers(version, seals, *told_another))
    for (const auto& [role, incarnation] : *told_another)
      if (role.kind == RoleKind::worker && !seals.contains(role))
        out.insert(role);
  return out;
}

bool EpochPlan::keeps_layers(uint64_t version, const Seals& seals,
                             const std::map<RoleId, uint64_t>& members) const {
  return std::ranges::any_of(members, [&](const auto& member) {
    const auto seal = seals.find(member.first);
    if (member.first.kind != RoleKind::worker || seal == seals.end()
        || seal->second.incarnation != member.second)
      return false;
    const auto& slices = seal->second.slices; // of those beside shards
    return (slices.empty() ? seal->second.version : slices.front().newest)
           >= version;
  });
}

bool EpochPlan::lives(uint32_t slice, const Seals& seals,
                      const std::map<RoleId, uint64_t>& members) const {
  return std::ranges::any_of(
    chains_.chain(slice).replicas, [&](uint32_t shard) {
      const RoleId role{plan_.owner_kind, shard};
      const auto member = members.find(role);
      const auto seal = seals.find(role);
      return member != members.end() && seal != seals.end()
             && seal->second.incarnation == member->second;
    });
}

EpochDecision EpochPlan::decide(const Seals& seals, const Known& known,
                                uint64_t epoch) {
  begin(seals, epoch);
  EpochDecision out;
  out.ranks = ranks_;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    const auto& chain = chains_.chain(slice);
    out.chains.push_back({slice, chain.replicas, chain.learners});
  }
  out.mode = mode(known.period.async);
  out.sealed = sealed(known);
  out.resume = decide_resume(out.sealed, out.mode);
  if (out.mode == ResumeMode::leases) { // LeaseAccount counts those
    out.slices = heads_;
    return out;
  }
  const auto version = out.resume.message.version;
  out.owners = owners(out.mode, version);
  if (out.resume.rolls_back())
    undo();
  else
    out.slices = heads_;
  tell_sums(out, version);
  if (!out.resume.rolls_back())
    out.unreported = unreported(version, known.reports_lost);
  return out;
}

ResumeMode EpochPlan::mode(bool async) const {
  if (!is_served())
    return ResumeMode::replicas;
  if (plan_.dense_reduced)
    return async ? ResumeMode::free_rows : ResumeMode::both;
  return async ? ResumeMode::leases : ResumeMode::slices;
}

LeaseSet EpochPlan::acknowledged(const Known& known) const {
  return mode(known.period.async) == ResumeMode::leases
           ? known.leases.acknowledged
           : leases_before(known.committed, plan_.virtual_ranks);
}

/// Rows are with shards, the rest with every worker. What shards hold of a step
/// tells nothing of the dense sums, so the workers' own word counts alone.
SealedState EpochPlan::sealed(const Known& known) const {
  SealedState out;
  out.slices = restorable(heads_, is_staged() ? tails_ : heads_);
  out.everywhere = everywhere(std::numeric_limits<uint64_t>::max());
  if (is_served())
    for (const auto& [role, held] : reduced_)
      out.replicas.push_back(held);
  else
    for (const auto& [role, sums] : sums_)
      out.replicas.push_back({sums.first, sums.first});
  out.applied = applied_at(tails_);
  out.promised = applied_at(heads_);
  out.undecided = undecided_;
  out.committed = known.committed;
  out.leases = {acknowledged(known), known.leases.counted};
  return out;
}

std::map<uint32_t, uint64_t> EpochPlan::owners(ResumeMode mode,
                                               uint64_t version) const {
  std::map<uint32_t, uint64_t> out;
  switch (mode) {
    case ResumeMode::slices:
      for (auto owner : is_staged() ? keepers() : tails())
        out[owner] = everywhere(version);
      break;
    case ResumeMode::replicas:
      for (const auto& [role, sums] : sums_)
        out[owner_key(role)] = sums.first;
      break;
    case ResumeMode::both:
      return holders(version);
    case ResumeMode::free_rows:
      return steps_held(version);
    case ResumeMode::leases: // counted by LeaseAccount
      break;
  }
  return out;
}

void EpochPlan::tell_sums(EpochDecision& decision, uint64_t version) const {
  if (plan_.served) // its ranks are the stages' for good
    return;
  if (is_served() && !plan_.dense_reduced) {
    decision.missing = missing(version);
    return;
  }
  if (decision.resume.rolls_back())
    return;
  for (auto& worker : decision.ranks)
    if (const auto& [step, nodes] = sums_.at(worker.worker); step == version)
      worker.held = nodes;
}

std::vector<RankRange> EpochPlan::unreported(uint64_t version,
                                             bool lost) const {
  if (!is_served() || has_model_part(plan_.computing()))
    return {}; // stages take a step anew, and tell of it
  if (plan_.dense_reduced)
    return lost ? std::vector<RankRange>{{0, plan_.virtual_ranks}}
                : std::vector<RankRange>{};
  return orphaned(version);
}

void EpochPlan::undo() {
  computed_.clear();
  for (auto& head : heads_)
    head = {head.slice, 0, 0, {}, 0, {}, 0};
  if (is_staged())
    tails_ = heads_;
}

uint64_t EpochPlan::newest_sealed() const {
  uint64_t newest = 0;
  for (const auto& slice : restorable(heads_, is_staged() ? tails_ : heads_))
    newest = std::max(newest, slice.newest);
  return newest;
}

/// The tail has the oldest version of a chain's replicas.
uint64_t EpochPlan::everywhere(uint64_t version) const {
  for (const auto& tail : tails_)
    version = std::min(version, tail.newest);
  return version;
}

std::map<uint32_t, uint64_t> EpochPlan::holders(uint64_t version) const {
  std::map<uint32_t, uint64_t> out;
  for (auto tail : tails())
    out[owner_key({RoleKind::shard, tail})] = everywhere(version);
  for (const auto& [role, held] : reduced_)
    out[owner_key(role)] = std::min(held.newest, version);
  return out;
}

std::map<uint32_t, uint64_t> EpochPlan::steps_held(uint64_t version) const {
  std::map<uint32_t, uint64_t> out;
  for (const auto& [tail, leases] : applied_at(tails_))
    out[owner_key({RoleKind::shard, tail})] =
      std::min(version, steps_through(leases, plan_.virtual_ranks));
  for (const auto& [role, held] : reduced_)
    out[owner_key(role)] = std::min(held.newest, version);
  return out;
}

std::vector<RankRange> EpochPlan::missing(uint64_t version) const {
  const auto ranks = plan_.virtual_ranks;
  std::vector<RankRange> held;
  if (auto step = computed_.find(version); step != computed_.end())
    held = step->second;
  // A rank that every slice's head has, or is past.
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const RankRange leaf{rank, rank + 1};
    const bool everywhere =
      std::ranges::all_of(heads_, [&](const SliceState& head) {
        return head.newest > version
               || (head.newest == version
                   && std::ranges::any_of(head.held, [&](RankRange x) {
                        return x.covers(leaf);
                      }));
      });
    if (everywhere)
      held.push_back(leaf);
  }
  return missing_ranks(held, ranks);
}

std::vector<RankRange> EpochPlan::orphaned(uint64_t version) const {
  auto reported = missing(version);
  if (auto step = computed_.find(version); step != computed_.end())
    reported.insert(reported.end(), step->second.begin(), step->second.end());
  return missing_ranks(reported, plan_.virtual_ranks);
}

std::set<uint32_t> EpochPlan::workers() const {
  std::set<uint32_t> out;
  for (const auto& worker : ranks_)
    out.insert(worker.worker.index);
  return out;
}

std::set<uint32_t> EpochPlan::tails() const {
  std::set<uint32_t> out;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    if (!chains_.chain(slice).replicas.empty())
      out.insert(chains_.chain(slice).replicas.back());
  return out;
}

std::set<uint32_t> EpochPlan::keepers() const {
  std::set<uint32_t> out;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    const auto& chain = chains_.chain(slice);
    out.insert(chain.replicas.begin(), chain.replicas.end());
    out.insert(chain.learners.begin(), chain.learners.end());
  }
  return out;
}

bool EpochPlan::passes(RoleId role, StepPhase phase) const {
  using enum StepPhase;
  if (!is_served() || is_staged())
    return phase != pull && phase != forward && phase != copy;
  if (role.kind == RoleKind::worker)
    return phase != reduce || plan_.dense_reduced;
  if (has_model_part(role.kind))
    return phase == pull || phase == push ? !plan_.role(role).slices.empty()
                                          : phase != reduce;
  if (role.kind != RoleKind::shard
      || (phase != pull && phase != reduce && phase != forward))
    return true;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    const auto& replicas = chains_.chain(slice).replicas;
    const auto own = std::ranges::find(replicas, role.index);
    if (own == replicas.end())
      continue;
    const bool head = own == replicas.begin();
    const bool tail = own + 1 == replicas.end();
    if (phase == pull ? tail : phase == forward ? !tail : head)
      return true;
  }
  return false;
}

std::set<RoleId> EpochPlan::whole(const std::set<RoleId>& present,
                                  uint64_t version) const {
  auto out = present;
  for (const auto& [role, held] : reduced_) // else it is about to take that
    if (version < held.oldest || held.newest < version)
      out.erase(role);
  if (!is_served())
    for (const auto& [role, sums] : sums_)
      if (sums.first < version)
        out.erase(role);
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    for (auto learner : chains_.chain(slice).learners)
      out.erase({RoleKind::shard, learner});
  return out;
}

std::map<uint32_t, uint64_t> EpochPlan::kept_bytes() const {
  std::map<uint32_t, uint64_t> out;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    for (auto shard : chains_.chain(slice).replicas)
      out[shard] += plan_.slices[slice].bytes();
  return out;
}

std::map<uint32_t, LeaseSet>
EpochPlan::applied_at(const std::vector<SliceState>& states) const {
  std::map<uint32_t, LeaseSet> out;
  for (const auto& state : states)
    if (const auto& replicas = chains_.chain(state.slice).replicas;
        !replicas.empty()) {
      const auto applied = leases_of(state);
      auto [at, first] = out.emplace(replicas.back(), applied);
      if (!first)
        at->second = intersection(at->second, applied);
    }
  return out;
}

} // namespace troupe

#include "actors/coordinator/epoch_plan.hpp"

#include "actors/job/slice_update.hpp"
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

/// Whether slice 0's replicas decide on what steps are made of, or on scalars.
bool decides(const Job& job) {
  return !rounds_of(job.options).empty() || job.options.backup_workers > 0;
}

LeaseSet leases_of(const SliceState& state) {
  return {state.lease_floor,
          {state.leases_above.begin(), state.leases_above.end()}};
}

} // namespace

uint64_t bytes_of(const Slice& slice) {
  return sizeof(float) * (slice.sparse() ? slice.expected : slice.count);
}

uint32_t owner_key(RoleId owner) {
  const uint32_t workers = uint32_t{1} << 31;
  return owner.index + (owner.kind == RoleKind::worker ? workers : 0);
}

EpochPlan::EpochPlan(const Job& job, uint32_t min_workers)
  : job_(job),
    min_workers_(min_workers),
    chains_(keeps_slices(job.plan.owner_kind)
              ? first_chains(job.plan)
              : std::vector<std::vector<uint32_t>>{},
            decides(job)) {}

bool EpochPlan::viable(const std::set<RoleId>& present) const {
  const auto least = std::max(1u, min_workers_);
  std::set<uint32_t> shards;
  uint32_t workers = 0;
  for (auto role : present) {
    workers += role.kind == RoleKind::worker ? 1 : 0;
    if (role.kind == job_.plan.owner_kind)
      shards.insert(role.index);
  }
  if (is_staged()) // nobody else has a stage's layers
    return shards.size() == job_.plan.owners;
  // One that is left has all that was committed, or says that it has not.
  return is_served()
           ? workers >= least && chains_.viable(shards)
           : job_.plan.of_kind(RoleKind::worker).size() > 1 && workers >= least;
}

bool EpochPlan::begins(const std::set<RoleId>& present) const {
  const auto shards = job_.plan.of_kind(RoleKind::shard);
  return min_workers_ > 0 && viable(present)
         && std::ranges::all_of(shards, [&](const RolePlan& shard) {
              return present.contains(shard.role);
            });
}

void EpochPlan::spread(const std::map<std::string, std::set<RoleId>>& hosts) {
  if (job_.options.chain < 2 || hosts.size() < 2)
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
    bytes.push_back(bytes_of(job_.plan.slices[slice]));
  }
  const auto apart = spread_over_hosts(wanted, bytes, host_of);
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    if (apart[slice] != wanted[slice])
      chains_.want(slice, apart[slice]);
}

void EpochPlan::begin(const std::map<RoleId, Sealed>& seals, uint64_t epoch) {
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
      {workers[i], ranks_of_worker(i, count, job_.options.virtual_ranks)});
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
    if (role.kind != job_.plan.owner_kind)
      continue;
    shards.insert(role.index);
    for (const auto& slice : seal.slices)
      if (slice.slice < held.size()) {
        held[slice.slice].push_back({role.index, slice.epoch, slice.newest});
        states[{slice.slice, role.index}] = &slice;
      }
  }
  stages_ = is_staged() ? shards.size() : 0;
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
    if (!job_.plan.on_shards(slice))
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
  if (!decides(job_))
    return false;
  const auto& replicas = chains_.chain(0).replicas;
  const auto& first = heads_.front();
  return !replicas.empty() && !before.proven(0, replicas.front(), first.epoch)
         && std::ranges::any_of(heads_, [&](const SliceState& head) {
              return head.newest > first.newest;
            });
}

std::set<RoleId> EpochPlan::awaited(const std::map<RoleId, Sealed>& seals,
                                    const Acknowledged& known) const {
  std::set<RoleId> out;
  EpochPlan next{*this};
  next.begin(seals, 0);
  auto version = known.version;
  if (!known.leases) // of a slice that is past a version it may be gone
    for (const auto& head : next.heads_)
      version = std::max(version, head.oldest);
  for (const auto& head : next.heads_)
    if (head.newest < version
        || (known.leases && lacking(*known.leases, leases_of(head)) > 0)
        || (!known.leases && head.slice == 0 && next.undecided_)
        || (known.told_another
            && !lives(head.slice, seals, *known.told_another)))
      for (auto shard : chains_.chain(head.slice).replicas)
        if (const RoleId role{job_.plan.owner_kind, shard};
            !seals.contains(role))
          out.insert(role);
  if (known.told_another && (!is_served() || job_.plan.dense_reduced)
      && !next.keeps_layers(version, seals, *known.told_another))
    for (const auto& [role, incarnation] : *known.told_another)
      if (role.kind == RoleKind::worker && !seals.contains(role))
        out.insert(role);
  return out;
}

bool EpochPlan::keeps_layers(uint64_t version,
                             const std::map<RoleId, Sealed>& seals,
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

bool EpochPlan::lives(uint32_t slice, const std::map<RoleId, Sealed>& seals,
                      const std::map<RoleId, uint64_t>& members) const {
  return std::ranges::any_of(
    chains_.chain(slice).replicas, [&](uint32_t shard) {
      const RoleId role{job_.plan.owner_kind, shard};
      const auto member = members.find(role);
      const auto seal = seals.find(role);
      return member != members.end() && seal != seals.end()
             && seal->second.incarnation == member->second;
    });
}

void EpochPlan::tell(Activate& message) const {
  message.ranks = ranks_;
  message.slices = heads_;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice) {
    const auto& chain = chains_.chain(slice);
    message.chains.push_back({slice, chain.replicas, chain.learners});
  }
}

ResumeMode EpochPlan::resume_mode(bool async) const {
  if (!is_served())
    return ResumeMode::replicas;
  if (job_.plan.dense_reduced)
    return async ? ResumeMode::free_rows : ResumeMode::both;
  return async ? ResumeMode::leases : ResumeMode::slices;
}

/// Rows are with shards, the rest with every worker. What shards hold of a step
/// tells nothing of the dense sums, so the workers' own word counts alone.
SealedState EpochPlan::sealed(uint64_t committed) const {
  SealedState out;
  out.slices = restorable();
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
  out.committed = committed;
  out.acknowledged = leases_before(committed, job_.options.virtual_ranks);
  return out;
}

std::map<uint32_t, uint64_t> EpochPlan::owners(ResumeMode mode,
                                               uint64_t version) const {
  std::map<uint32_t, uint64_t> out;
  switch (mode) {
    case ResumeMode::slices:
      for (auto tail : tails())
        out[tail] = everywhere(version);
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

void EpochPlan::tell_sums(Activate& message) const {
  if (is_served() && !job_.plan.dense_reduced) {
    message.missing = missing(message.version);
    return;
  }
  if (message.rollback)
    return;
  for (auto& worker : message.ranks)
    if (const auto& [step, nodes] = sums_.at(worker.worker);
        step == message.version)
      worker.held = nodes;
}

std::vector<RankRange> EpochPlan::unreported(uint64_t version,
                                             bool told_another) const {
  if (!is_served() || is_staged()) // stages take a step anew, and tell of it
    return {};
  if (told_another)
    return {{0, job_.options.virtual_ranks}};
  return job_.plan.dense_reduced ? std::vector<RankRange>{} : orphaned(version);
}

void EpochPlan::undo() {
  computed_.clear();
  for (auto& head : heads_)
    head = {head.slice, 0, 0, {}, 0, {}, 0};
}

std::vector<Restorable> EpochPlan::restorable() const {
  std::vector<Restorable> out;
  for (const auto& head : heads_)
    out.push_back({head.oldest, head.newest});
  return out;
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
      std::min(version, steps_through(leases, job_.options.virtual_ranks));
  for (const auto& [role, held] : reduced_)
    out[owner_key(role)] = std::min(held.newest, version);
  return out;
}

std::vector<RankRange> EpochPlan::missing(uint64_t version) const {
  const auto ranks = job_.options.virtual_ranks;
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
  return missing_ranks(reported, job_.options.virtual_ranks);
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

bool EpochPlan::passes(RoleId role, StepPhase phase) const {
  using enum StepPhase;
  if (is_staged())
    return phase != pull && phase != forward && phase != copy;
  if (!is_served())
    return phase != pull && phase != forward && phase != copy;
  if (role.kind == RoleKind::worker)
    return phase != reduce || job_.plan.dense_reduced;
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
      out[shard] += bytes_of(job_.plan.slices[slice]);
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

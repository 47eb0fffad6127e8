#include "tests/sim/cluster_rough.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

// What must hold after each message, each epoch and at the end.

namespace troupe::sim {
namespace {

/// Of the line with which a job ends that has lost what was learnt in steps
/// before it was switched to async.
const std::string learnt_before = "what the job learnt before";

/// Lost rows of a step before are computed with the layers that there are.
void check_parameters(const Oracle& oracle, const Scenario& scenario,
                      uint64_t step, const float* parameters) {
  const auto& job = *scenario.job;
  const auto where = "a worker that computes step " + std::to_string(step);
  const auto check_at = [&](uint64_t version) {
    for (const auto& slice : job.plan.slices)
      if (!slice.sparse())
        oracle.check(job, slice, version, parameters + job.flat_offset(slice),
                     where);
  };
  for (auto version = step; scenario.free_rows && version <= job.total_steps;
       ++version)
    try {
      return check_at(version);
    } catch (const Violation&) {
      continue; // a later one, or none
    }
  check_at(step);
}

bool is_member(const Activate& activation, RoleId role) {
  return std::ranges::any_of(activation.members,
                             [&](const Member& x) { return x.role == role; });
}

} // namespace

void Cluster::on_message(uint32_t from, uint32_t to, const Letter& letter) {
  if (const auto* shown = letter.as<SnapshotSlice>();
      shown != nullptr && oracle_ == nullptr)
    shown_[shown->slice] = shown->values;
  const auto note_end = [&](const auto* shown) {
    if (shown != nullptr && leads(to)
        && periods_.is_complete(job_, shown->history))
      end_shown_[shown->slice] = activated_;
  };
  note_end(letter.as<SnapshotSlice>());
  note_end(letter.as<RowSnapshot>());
  if (const auto* propose = letter.as<Propose>()) {
    check_decided(from, propose->fence, false);
    periods_.told(propose->fence, propose->consistency, false);
    check(*propose);
  } else if (const auto* activation = letter.as<Activate>()) {
    check_decided(from, activation->fence, true);
    periods_.told(activation->fence, activation->consistency, true);
    check(*activation);
    if (activation->fence.epoch == activated_)
      begins_at_ = activation->version;
  }
  if (scenario_.rough && leads(to))
    ClusterRough{*this}.heard(to, letter);
  if (const auto* sealed = letter.as<Sealed>();
      sealed != nullptr && leads(to)) {
    replicas_.heard(from, *sealed);
    check(*sealed);
  } else if (const auto* has = letter.as<Applied>();
             has != nullptr && leads(to)) {
    replicas_.heard(from, *has, left_ == activated_);
    note_applied(*has);
  } else if (const auto* pulled = letter.as<Pulled>()) {
    pulled_epoch_ = std::max(pulled_epoch_, pulled->fence.epoch);
    note_read(*pulled);
  } else if (const auto* applied = letter.as<LeaseApplied>();
             applied != nullptr && leads(to))
    note_applied(*applied);
  else if (const auto* shares = letter.as<StepShares>())
    note_shares(*shares);
}

/// PROTOCOL 13: what a step is made of is decided once.
void Cluster::note_shares(const StepShares& shares) {
  if (shares.fence.epoch < rolled_back_)
    return;
  const auto [known, fresh] = made_of_.emplace(shares.step, shares.shares);
  if (fresh || known->second == shares.shares)
    return;
  if (!beyond_)
    throw Violation("I1", "step " + std::to_string(shares.step)
                            + " is decided a second time");
  known->second = shares.shares;
}

/// PROTOCOL 15: a term is one coordinator's, and what it tells of an epoch it
/// has written down.
void Cluster::check_decided(uint32_t from, const Fence& fence, bool announced) {
  const auto [known, fresh] = coordinators_.emplace(fence.term, from);
  if (!fresh && known->second != from)
    throw Violation("I4", "two coordinators decide in term "
                            + std::to_string(fence.term));
  if (announced && scenario_.kept && !scenario_.standby && !disk_.full
      && disk_.newest_epoch() < fence.epoch)
    throw Violation("I4", "epoch " + std::to_string(fence.epoch)
                            + " begins, and the journal does not know");
}

void Cluster::check(const Propose& propose) {
  proposed_ = std::max(proposed_, propose.fence.epoch);
}

/// What the coordinator sends when an epoch is over for it; what it hears of
/// that epoch from then on does not count.
void Cluster::note_sent(uint32_t to, const Letter& letter) {
  if (const auto* activation = letter.as<Activate>())
    periods_.sent(*activation);
  else if (const auto* grant = letter.as<LeaseGrant>())
    periods_.sent(to, *grant);
  if (letter.as<Propose>() || letter.as<ReplaceRole>())
    left_ = activated_;
}

void Cluster::check(const Activate& activation) {
  if (activation.fence.epoch <= activated_)
    return;
  const bool gone = scenario_.reduces()
                    && replicas_.began(activation, scenario_.has_tables());
  beyond_ = beyond_ || gone;
  if (activation.rollback && !memories_.empty() && !gone) {
    // Who has not gone back yet when the next epoch comes goes back in that.
    bool all = std::ranges::any_of(read_, [](const auto& x) {
      return x.second.updates > 0;
    });
    for (const auto& chain : chains_)
      all = all && remembered(chain.slice);
    if (all)
      throw Violation("I2", "a rollback, although no memory was lost");
  }
  activated_ = activation.fence.epoch;
  const bool async = periods_.now().async && activation.consistency.async;
  periods_.began(activation.consistency);
  chains_ = activation.chains;
  processes_.clear();
  active_.clear();
  for (const auto& [role, member] : members_)
    if (is_member(activation, role))
      active_.push_back(member.process);
  for (const auto& member : activation.members)
    if (member.role.kind == RoleKind::shard)
      processes_[member.role.index] = member.links;
  if (scenario_.kind == Scenario::Kind::replicas)
    return;
  if (async && !memories_.empty())
    check_leases_of(activation);
  forget_undone(activation);
  memories_.assign(chains_.size(), {});
  for (const auto& chain : chains_)
    for (auto shard : chain.replicas)
      memories_[chain.slice][shard] = memory_of_[processes_[shard]];
  if (activation.rollback) {
    for (const auto& [slice, read] : read_)
      if (!survives(slice))
        beyond_ = true;
    if (!beyond_)
      throw Violation("I2", "a chain that lost no more than it may goes back "
                            "to version "
                              + std::to_string(activation.version));
    read_.clear();
    made_of_.clear();
    if (scenario_.free_rows)
      acknowledged_ = no_leases(job_);
    rolled_back_ = activated_;
    return;
  }
  forget_moved();
  if (activation.consistency.async)
    return;
  for (const auto& head : activation.slices) {
    const auto from = activation.consistency.count_from();
    auto read = read_.find(head.slice);
    if (read == read_.end() || head.newest + from >= read->second.updates)
      continue;
    if (survives(head.slice))
      throw Violation("I2", "epoch " + std::to_string(activated_)
                              + " begins with version "
                              + std::to_string(head.newest) + " of slice "
                              + std::to_string(head.slice) + "; version "
                              + std::to_string(read->second.updates - from)
                              + " has been read");
    beyond_ = true;
  }
}

/// A decision that all have lost who knew it, of a step that nobody has
/// applied, is made anew.
void Cluster::forget_undone(const Activate& activation) {
  if (!activation.slices.empty() && !memories_.empty() && !remembered(0))
    made_of_.erase(made_of_.lower_bound(activation.slices.front().newest),
                   made_of_.end());
}

/// Who is no replica any more, and has not died, has given the slice to others.
void Cluster::forget_moved() {
  for (auto& [slice, read] : read_)
    std::erase_if(read.replicas, [&, at = slice](const auto& replica) {
      return processes_.contains(replica.first)
             && !is_replica(replica.first, at);
    });
}

void Cluster::note_read(const Pulled& pulled) {
  auto& read = read_[pulled.slice];
  const auto updates = pulled.version + periods_.now().count_from();
  if (pulled.fence.epoch != activated_
      || (updates <= read.updates && !read.replicas.empty()))
    return;
  read.updates = updates;
  read.replicas.clear();
  for (auto shard : chains_[pulled.slice].replicas)
    read.replicas[shard] = processes_[shard];
}

/// Nothing is on a shard's executor when it seals.
void Cluster::check(const Sealed& sealed) {
  if (oracle_ == nullptr || sealed.role.kind != RoleKind::shard
      || sealed.fence.epoch != proposed_)
    return;
  const auto known = members_.find(sealed.role);
  if (known != members_.end() && known->second.store && known->second.up)
    check_store(sealed.role.index);
}

void Cluster::check_store(uint32_t shard) const {
  const RoleId role{RoleKind::shard, shard};
  const auto& store = *members_.at(role).store;
  for (auto slice : store.slices()) {
    const auto newest = store.newest(slice);
    if (job_.plan.slices[slice].sparse()) {
      if (scenario_.free_rows)
        continue; // they come to the same at the end
      oracle_->check_table(job_.plan.slices[slice], newest, store,
                           to_string(role));
      continue;
    }
    if (scenario_.gradient() == GradientKind::ordered) {
      oracle_->check(job_, job_.plan.slices[slice], newest,
                     store.values(slice, newest), to_string(role));
      continue;
    }
    // The word of the newest may have died with its decider; a replica that
    // was away while steps were undone comes back with them.
    const bool decides = scenario_.kind == Scenario::Kind::backup;
    if ((decides || scenario_.switches > 0)
        && (store.lineage(slice) < rolled_back_
            || (decides && !over_ && !periods_.knows(store, slice, made_of_))))
      continue;
    periods_.check(job_, store, slice, decides ? &made_of_ : nullptr,
                   to_string(role));
  }
}

/// Whether a tail may lack the last of a slice: it came back when the end had
/// been shown in an epoch before, and another of its chain has all.
bool Cluster::came_back_late(uint32_t slice) const {
  const auto shown = end_shown_.find(slice);
  return shown != end_shown_.end() && shown->second < activated_
         && std::ranges::any_of(chains_[slice].replicas, [&](uint32_t shard) {
              const auto found = members_.find({RoleKind::shard, shard});
              return found != members_.end() && found->second.store
                     && found->second.up
                     && periods_.is_complete(job_, *found->second.store, slice);
            });
}

void Cluster::check_stores() const {
  for (const auto& [role, member] : members_) {
    if (!member.store || !member.up)
      continue;
    check_store(role.index);
    for (auto slice : member.store->slices())
      if (proposed_ == activated_ // else the chain may be another
          && chains_[slice].replicas.back() == role.index
          && !periods_.is_complete(job_, *member.store, slice)
          && !came_back_late(slice))
        throw Violation("I1", to_string(role) + " has not had all of slice "
                                + std::to_string(slice) + ", but "
                                + std::to_string(member.store->updates(slice))
                                + " updates");
  }
}

/// Who was left out may still read a version that the others are past: where it
/// lay there is another by then, and nobody takes what it makes of that.
void Cluster::note_compute(uint32_t process, uint64_t step,
                           const float* parameters) {
  const bool left_behind = scenario_.hosts > 0 && !periods_.now().async
                           && step < begins_at_; // and is back
  if (left_behind || std::ranges::find(active_, process) == active_.end())
    return;
  progressed(step);
  if (oracle_ == nullptr) {
    if (recorded.versions.size() <= step)
      recorded.versions.resize(step + 1);
    recorded.versions[step].assign(parameters, parameters + job_.layout.total);
    recorded.record_tables(job_, step,
                           *members_.at({RoleKind::shard, 0}).store);
  } else if (scenario_.gradient() == GradientKind::ordered
             || scenario_.free_rows) {
    try {
      check_parameters(*oracle_, scenario_, step, parameters);
    } catch (const Violation& violation) { // tasks' failures end roles only
      computed_wrong_ = violation.what();
    }
  }
  if (scenario_.kind == Scenario::Kind::replicas)
    pulled_epoch_ = activated_;
}

Phase Cluster::phase() const {
  for (const auto& [role, member] : members_)
    if (!member.up || !runtime_.alive(member.process))
      return Phase::forming;
  if (proposed_ != activated_)
    return Phase::sealing;
  if (runtime_.under_way(type_of<SliceCopy>()) > 0)
    return Phase::copying;
  if (pulled_epoch_ != activated_)
    return Phase::linking;
  if (runtime_.under_way(type_of<ChainUpdate>()) > 0)
    return Phase::forwarding;
  if (runtime_.under_way(type_of<Push>()) > 0
      || runtime_.under_way(type_of<LeasePush>()) > 0
      || byte_links_.under_way())
    return Phase::pushing;
  if (runtime_.under_way(type_of<Pull>()) > 0
      || runtime_.under_way(type_of<Pulled>()) > 0)
    return Phase::pulling;
  for (const auto& [role, member] : members_)
    if (runtime_.computing(member.process))
      return Phase::computing;
  return Phase::quiet;
}

void Cluster::check_all_ended() const {
  if (scenario_.standby)
    check_standby_ended();
  else if (runtime_.alive(coordinator_process_))
    throw Violation("I12", "the coordinator does not end");
  for (const auto& [role, member] : members_)
    if (member.up && runtime_.alive(member.process)
        && !runtime_.paused(member.process)
        && (!scenario_.standby || end_is_decided()))
      throw Violation("I12", to_string(role) + " does not end");
}

void Cluster::check_end() const {
  if (status_ != 0 && beyond_ && scenario_.switches > 0
      && outcome_line_.find(learnt_before) != std::string::npos)
    return; // it cannot go back to before the switch
  if (status_ != 0 && scenario_.rough) {
    ClusterRough::check_early_end(*this);
    return check_all_ended();
  }
  if (status_ != 0)
    throw Violation("I11", "the run failed: " + outcome_line_);
  const auto summary = nlohmann::json::parse(summary_);
  if (summary["steps"] != job_.total_steps)
    throw Violation("I4", summary["steps"].dump() + " steps committed");
  // In a reckless world one may be decided, and be overtaken by another epoch,
  // in which it is not needed any more, before anybody is told.
  if (summary["steps_rolled_back"] != 0 && !beyond_ && !scenario_.reckless)
    throw Violation("I4", "steps were rolled back");
  if (scenario_.async() || scenario_.switches > 0) {
    const uint64_t told = summary["consistency"].value("leases_rolled_back",
                                                       uint64_t{0});
    if (told < lost_leases_ || (told > 0 && !beyond_))
      throw Violation("I2", std::to_string(lost_leases_)
                              + " leases were lost, and " + std::to_string(told)
                              + " declared");
  }
  check_all_ended();
  check_stores();
  if ((scenario_.gradient() == GradientKind::ordered
       || scenario_.kind == Scenario::Kind::dense_reduced)
      && (summary["weights_sha256"] != oracle_->weights_sha256
          || summary["state_sha256"] != oracle_->state_sha256))
    throw Violation("I3", "other weights, or other state of the optimizer, "
                          "than those of an undisturbed run");
  if (scenario_.free_rows && scenario_.staleness >= 0
      && summary["consistency"]["rows_most_behind"] > scenario_.staleness)
    throw Violation("I5", "rows that lack "
                            + summary["consistency"]["rows_most_behind"].dump()
                            + " steps were read");
  if (scenario_.kind == Scenario::Kind::bounded && scenario_.switches == 0
      && summary["consistency"]["max_lead"] > scenario_.staleness)
    throw Violation("I5", "a lead of "
                            + summary["consistency"]["max_lead"].dump()
                            + " leases");
}

} // namespace troupe::sim

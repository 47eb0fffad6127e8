#include "strategies/reshaping.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

bool contains(const std::vector<uint32_t>& list, uint32_t x) {
  return std::ranges::find(list, x) != list.end();
}

std::string counted_in_words(uint64_t n, const std::string& noun) {
  return std::to_string(n) + ' ' + noun + (n == 1 ? "" : "s");
}

std::string names(const std::set<RoleId>& roles) {
  std::string out;
  for (auto role : roles)
    out += (out.empty() ? "" : ", ") + to_string(role);
  return out;
}

} // namespace

Reshaping::Reshaping(Options options, ChainBook& chains)
  : options_(std::move(options)),
    chains_(chains),
    roles_(options_.roles.begin(), options_.roles.end()) {
  for (auto role : roles_)
    next_index_[role.kind] = std::max(next_index_[role.kind], role.index + 1);
}

std::set<uint32_t> Reshaping::shards() const {
  std::set<uint32_t> out;
  for (auto role : roles_)
    if (role.kind == RoleKind::shard)
      out.insert(role.index);
  return out;
}

uint32_t Reshaping::count(RoleKind kind) const {
  return static_cast<uint32_t>(std::ranges::count_if(roles_, [&](RoleId role) {
    return role.kind == kind;
  }));
}

// --- who belongs to the job -------------------------------------------------

void Reshaping::resume(const std::set<RoleId>& joined,
                       const std::set<RoleId>& left) {
  for (const auto& known : {joined, left})
    for (auto role : known)
      next_index_[role.kind] = std::max(next_index_[role.kind], role.index + 1);
  roles_.insert(joined.begin(), joined.end());
  for (auto role : left)
    roles_.erase(role);
  retired_ = left;
  proven_ = roles_;
}

std::string Reshaping::beyond(RoleId role) {
  constexpr uint32_t max_index = 4096;
  if (role.index < max_index)
    return {};
  return to_string(role) + " is beyond " + std::to_string(max_index - 1);
}

std::string Reshaping::refusal(RoleId role) const {
  if (roles_.contains(role))
    return {};
  if (role.kind != RoleKind::worker && role.kind != RoleKind::shard)
    return to_string(role) + " is not a role that joins";
  if (retired_.contains(role))
    return to_string(role) + " has left this job: choose another number";
  if (auto why = beyond(role); !why.empty())
    return why;
  Reshape wish;
  wish.kind = Reshape::Kind::add;
  wish.of = role.kind;
  return mistake_of_adding(wish);
}

void Reshaping::supervised(RoleId role) {
  supervised_.insert(role);
  guests_.erase(role);
}

Reshaping::Actions Reshaping::joining(RoleId role, uint64_t now_ms) {
  Actions actions;
  if (roles_.insert(role).second) {
    const bool by_hand = !supervised_.contains(role);
    if (by_hand)
      guests_.insert(role);
    next_index_[role.kind] = std::max(next_index_[role.kind], role.index + 1);
    actions.emplace_back(
      Tell{to_string(role) + (by_hand ? " joins, started by hand" : " joins")});
    if (role.kind == RoleKind::shard && !change_) {
      change_ = Change{{}, now_ms, {}, {role}, false};
      change_->wish.kind = Reshape::Kind::add;
    }
  }
  if (!change_ || change_->moving || !change_->added.contains(role))
    return actions;
  change_->awaited.erase(role);
  if (change_->awaited.empty() && change_->wish.of == RoleKind::shard) {
    spread(shards()); // the epoch that its join brings begins to teach it
    change_->moving = true;
  }
  return actions;
}

Reshaping::Actions Reshaping::lost(RoleId role) {
  // A shard that keeps slices may be started again with what it holds.
  if (role.kind != RoleKind::worker || guests_.erase(role) == 0)
    return {};
  roles_.erase(role);
  Actions actions;
  actions.emplace_back(Retire{role});
  return actions;
}

bool Reshaping::unfit(RoleId role, const std::string& why, Actions& actions) {
  if (proven_.empty() || proven_.contains(role))
    return false;
  const bool asked = change_ && change_->added.contains(role);
  if (roles_.contains(role))
    retire(role, actions);
  actions.emplace_back(Tell{to_string(role) + " cannot take part: " + why});
  if (asked)
    finish(false, to_string(role) + " cannot take part: " + why, actions);
  return true;
}

void Reshaping::retire(RoleId role, Actions& actions) {
  roles_.erase(role);
  guests_.erase(role);
  retired_.insert(role);
  actions.emplace_back(Retire{role});
}

// --- wishes -----------------------------------------------------------------

std::string Reshaping::mistake_of_adding(const Reshape& wish) const {
  if (wish.of == RoleKind::shard)
    return options_.fixed_slices;
  if (!options_.fixed_workers.empty())
    return options_.fixed_workers;
  const auto workers = count(RoleKind::worker) + wish.count;
  if (workers > options_.max_workers)
    return counted_in_words(workers, "worker")
           + " need as many virtual ranks, and the " + "job has "
           + std::to_string(options_.max_workers)
           + ": begin it with --virtual-ranks " + std::to_string(workers);
  return {};
}

std::string Reshaping::mistake_of_removing_worker(RoleId role) const {
  if (!options_.needed_workers.empty())
    return options_.needed_workers;
  if (count(role.kind) == 1)
    return to_string(role) + " is the last worker";
  if (count(role.kind) <= options_.min_workers)
    return to_string(role) + " is needed: --workers asks for "
           + std::to_string(options_.min_workers) + " at least";
  return {};
}

std::string Reshaping::mistake_of_removing(RoleId role) const {
  if (!roles_.contains(role))
    return to_string(role) + " is not a role of this job, which has "
           + names(roles_);
  if (role.kind == RoleKind::worker)
    return mistake_of_removing_worker(role);
  if (role.kind != RoleKind::shard)
    return options_.fixed_workers;
  if (!options_.fixed_slices.empty())
    return options_.fixed_slices;
  if (count(role.kind) == 1)
    return to_string(role) + " is the last shard: add another one first";
  if (count(role.kind) <= options_.chain)
    return to_string(role)
           + " is needed: " + counted_in_words(options_.chain, "replica")
           + " of each slice need as many shards; add one first";
  return {};
}

std::string Reshaping::mistake_of_moving(const Reshape& wish) const {
  if (!options_.fixed_slices.empty())
    return options_.fixed_slices;
  for (auto role : {wish.from, wish.to})
    if (!roles_.contains(role))
      return to_string(role) + " is not a shard of this job, which has "
             + names(roles_);
  if (wish.from == wish.to)
    return "from " + to_string(wish.from) + " to itself is no move";
  for (auto slice : wish.slices) {
    if (slice >= chains_.slices())
      return "there is no slice " + std::to_string(slice) + ": the last one is "
             + std::to_string(chains_.slices() - 1);
    if (!contains(chains_.wanted(slice), wish.from.index))
      return to_string(wish.from) + " does not keep slice "
             + std::to_string(slice);
    if (contains(chains_.wanted(slice), wish.to.index))
      return to_string(wish.to) + " keeps slice " + std::to_string(slice)
             + " already";
  }
  if (slices_to_move(wish).empty())
    return to_string(wish.from) + " keeps nothing that " + to_string(wish.to)
           + " does not";
  return {};
}

std::string Reshaping::mistake(const Reshape& wish) const {
  if (change_)
    return "another change is under way: " + to_string(change_->wish);
  switch (wish.kind) {
    case Reshape::Kind::add:
      return mistake_of_adding(wish);
    case Reshape::Kind::remove:
      return mistake_of_removing(wish.from);
    case Reshape::Kind::move:
      return mistake_of_moving(wish);
    case Reshape::Kind::rebalance:
      return options_.fixed_slices;
  }
  return {};
}

std::vector<uint32_t> Reshaping::slices_to_move(const Reshape& wish) const {
  std::vector<uint32_t> out;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    if ((wish.slices.empty() || contains(wish.slices, slice))
        && contains(chains_.wanted(slice), wish.from.index)
        && !contains(chains_.wanted(slice), wish.to.index))
      out.push_back(slice);
  return out;
}

Reshaping::Actions Reshaping::ask(const Reshape& wish, uint64_t now_ms,
                                  std::string& refused) {
  refused = mistake(wish);
  if (!refused.empty())
    return {};
  Actions actions;
  moved_slices_ = 0;
  moved_bytes_ = 0;
  change_ = Change{wish, now_ms, {}, {}, false};
  switch (wish.kind) {
    case Reshape::Kind::add:
      add(*change_, actions);
      return actions;
    case Reshape::Kind::remove:
      if (wish.from.kind == RoleKind::worker) {
        retire(wish.from, actions);
        finish(true, to_string(wish.from) + " has left", actions);
        return actions;
      }
      spread_without(wish.from.index);
      break;
    case Reshape::Kind::rebalance:
      spread(shards());
      break;
    case Reshape::Kind::move:
      for (auto slice : slices_to_move(wish)) {
        auto wanted = chains_.wanted(slice);
        std::ranges::replace(wanted, wish.from.index, wish.to.index);
        want(slice, std::move(wanted));
      }
      break;
  }
  change_->moving = true;
  actions.emplace_back(Renew{});
  return actions;
}

void Reshaping::add(Change& change, Actions& actions) {
  for (uint32_t i = 0; i < change.wish.count; ++i) {
    const RoleId role{change.wish.of, next_index_[change.wish.of]++};
    roles_.insert(role);
    change.awaited.insert(role);
    change.added.insert(role);
    actions.emplace_back(Start{role});
  }
}

void Reshaping::want(uint32_t slice, std::vector<uint32_t> shards) {
  for (auto shard : shards)
    if (!contains(chains_.wanted(slice), shard)) {
      ++moved_slices_;
      moved_bytes_ += options_.slice_bytes[slice];
    }
  chains_.want(slice, std::move(shards));
}

void Reshaping::spread(const std::set<uint32_t>& shards) {
  std::vector<std::vector<uint32_t>> wanted;
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    wanted.push_back(chains_.wanted(slice));
  const auto spread = rebalance(wanted, options_.slice_bytes, shards,
                                options_.chain, costs_);
  for (uint32_t slice = 0; slice < chains_.slices(); ++slice)
    if (!spread[slice].empty())
      want(slice, spread[slice]);
}

void Reshaping::spread_without(uint32_t shard) {
  auto rest = shards();
  rest.erase(shard);
  spread(rest);
}

std::string Reshaping::what_moved() const {
  return counted_in_words(moved_slices_, "slice") + " moved ("
         + std::to_string(moved_bytes_) + " bytes)";
}

void Reshaping::finish(bool done, const std::string& line, Actions& actions) {
  change_.reset();
  actions.emplace_back(Answer{done, line});
}

Reshaping::Actions Reshaping::end() {
  Actions actions;
  if (change_)
    finish(false, "the run ended before", actions);
  return actions;
}

// --- epochs -----------------------------------------------------------------

void Reshaping::began(const std::set<RoleId>& members, uint64_t now_ms,
                      Actions& actions) {
  caught_up_.clear();
  renew_ = chains_.leaving();
  proven_.insert(members.begin(), members.end());
  if (!change_)
    return;
  auto& change = *change_;
  if (change.wish.kind == Reshape::Kind::add) {
    for (auto role : change.added)
      if (!members.contains(role))
        return;
    if (change.wish.of == RoleKind::worker) {
      finish(true, names(change.added) + " take part", actions);
      return;
    }
  }
  change.since_ms = now_ms;
  if (!change.moving || !chains_.settled())
    return;
  if (change.wish.kind == Reshape::Kind::remove) {
    const auto role = change.wish.from;
    retire(role, actions);
    finish(true, to_string(role) + " has left, " + what_moved(), actions);
  } else if (change.wish.kind == Reshape::Kind::add) {
    finish(true, names(change.added) + " take part, " + what_moved(), actions);
  } else {
    finish(true, what_moved(), actions);
  }
}

Reshaping::Actions Reshaping::caught_up(uint32_t shard, uint64_t now_ms) {
  if (caught_up_.empty())
    first_caught_up_ms_ = now_ms;
  caught_up_.insert(shard);
  Actions actions; // tick() looks after those that take long
  if (std::ranges::includes(caught_up_, chains_.learners()))
    actions.emplace_back(Renew{});
  return actions;
}

Reshaping::Actions Reshaping::tick(uint64_t now_ms) {
  Actions actions;
  const bool waited = !caught_up_.empty()
                      && now_ms - first_caught_up_ms_
                           >= options_.learn_together_ms;
  if (std::exchange(renew_, false) || waited) {
    caught_up_.clear();
    actions.emplace_back(Renew{});
  }
  if (change_ && !change_->awaited.empty()
      && now_ms - change_->since_ms >= options_.join_deadline_ms) {
    const auto late = change_->awaited;
    for (auto role : late)
      retire(role, actions);
    finish(false,
           names(late) + " did not join within "
             + std::to_string(options_.join_deadline_ms / 1000)
             + " s: look at its last output (--log-dir)",
           actions);
  }
  return actions;
}

} // namespace troupe

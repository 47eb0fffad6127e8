#include "strategies/row_fetches.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// A batch that was expected is taken before so many windows are, or never: its
/// ranks are another worker's by now.
constexpr uint64_t stale_windows = 4;

} // namespace

RowFetches::Actions RowFetches::expect(uint64_t batch, uint64_t bytes,
                                       uint64_t now_ms) {
  Actions actions;
  if (const auto [at, fresh] = batches_.try_emplace(batch); fresh) {
    at->second.bytes = bytes;
    at->second.taken_before = taken_;
    want(at);
  }
  ask(actions);
  if (!looked_ms_) // nobody has been asked who reads
    look(0, now_ms, actions);
  return actions;
}

RowFetches::Actions RowFetches::await(uint64_t batch, uint64_t bytes,
                                      uint64_t now_ms) {
  const auto [at, fresh] = batches_.try_emplace(batch);
  auto& one = at->second;
  if (fresh) {
    one.bytes = bytes;
    one.taken_before = taken_;
  }
  if (!one.awaited) {
    one.awaited = true;
    one.since_ms = now_ms;
    if (one.stage == Stage::wanted)
      want(at);
  }
  return expect(batch, bytes, now_ms);
}

RowFetches::Actions RowFetches::arrived(uint64_t batch, uint64_t request) {
  const auto found = batches_.find(batch);
  if (found == batches_.end() || found->second.request != request)
    return {};
  auto& one = found->second;
  withdraw(one);
  wanted_[one.awaited].erase(batch);
  one.stage = Stage::here;
  held_ += one.bytes;
  return {};
}

RowFetches::Actions RowFetches::taken(uint64_t batch) {
  Actions actions;
  const auto found = batches_.find(batch);
  if (found == batches_.end())
    return actions;
  taken_ += found->second.bytes;
  erase(found);
  forget_stale(actions);
  ask(actions);
  return actions;
}

RowFetches::Actions RowFetches::readers(const std::vector<RoleId>& names) {
  Actions actions;
  readers_ = names;
  for (auto reader : readers_)
    if (links_.try_emplace(reader, LinkState::linking).second)
      actions.emplace_back(Link{reader});
  for (auto at = batches_.begin(); at != batches_.end(); ++at)
    if (at->second.stage == Stage::asked
        && std::ranges::find(readers_, at->second.reader) == readers_.end())
      want(at);
  ask(actions);
  return actions;
}

RowFetches::Actions RowFetches::linked(RoleId reader) {
  Actions actions;
  links_[reader] = LinkState::linked;
  ask(actions);
  return actions;
}

RowFetches::Actions RowFetches::unlinked(RoleId reader, uint64_t now_ms) {
  Actions actions;
  links_.erase(reader);
  std::erase(readers_, reader); // until the coordinator says so again
  for (auto at = batches_.begin(); at != batches_.end(); ++at)
    if (at->second.stage == Stage::asked && at->second.reader == reader)
      want(at);
  ask(actions);
  look(options_.hurry_ms, now_ms, actions);
  return actions;
}

RowFetches::Actions RowFetches::tick(uint64_t now_ms) {
  Actions actions;
  bool late = false;
  for (auto at = batches_.begin(); at != batches_.end();) {
    auto& batch = at->second;
    const bool waits = batch.awaited && batch.stage != Stage::here;
    const auto waited_ms = waits ? now_ms - batch.since_ms : 0;
    late = late || waited_ms >= options_.late_ms;
    if (waited_ms >= options_.tell_ms && !batch.told) {
      batch.told = true;
      actions.emplace_back(Tell{"waits for samples: " + why_none(batch)});
    }
    if (waited_ms < options_.deadline_ms) {
      ++at;
      continue;
    }
    actions.emplace_back(
      GiveUp{at->first, "no samples within "
                          + std::to_string(options_.deadline_ms / 1000)
                          + " s: " + why_none(batch)
                          + "; look at the readers' output, or give more time "
                            "with --data-timeout"});
    at = erase(at);
  }
  if (looked_ms_)
    look(late || !idlest() ? options_.hurry_ms : options_.look_ms, now_ms,
         actions);
  ask(actions);
  return actions;
}

/// Asks who reads, unless that was done less than so long ago.
void RowFetches::look(uint64_t after_ms, uint64_t now_ms, Actions& actions) {
  if (looked_ms_ && now_ms < *looked_ms_ + after_ms)
    return;
  looked_ms_ = now_ms;
  actions.emplace_back(LookUp{});
}

/// It takes no room any more, and nobody owes it.
void RowFetches::withdraw(const Batch& batch) {
  if (batch.stage == Stage::wanted)
    return;
  held_ -= batch.bytes;
  if (batch.stage == Stage::asked)
    owed_[batch.reader] -= batch.bytes;
}

void RowFetches::want(Batches::iterator batch) {
  auto& [number, one] = *batch;
  withdraw(one);
  one.stage = Stage::wanted;
  wanted_[!one.awaited].erase(number);
  wanted_[one.awaited].insert(number);
}

RowFetches::Batches::iterator RowFetches::erase(Batches::iterator batch) {
  withdraw(batch->second);
  for (auto& wanted : wanted_)
    wanted.erase(batch->first);
  return batches_.erase(batch);
}

/// The linked reader that owes least.
std::optional<RoleId> RowFetches::idlest() const {
  std::optional<RoleId> best;
  uint64_t least = 0;
  for (auto reader : readers_) {
    const auto link = links_.find(reader);
    if (link == links_.end() || link->second != LinkState::linked)
      continue;
    const auto found = owed_.find(reader);
    const auto owed = found == owed_.end() ? 0 : found->second;
    if (!best || owed < least) {
      best = reader;
      least = owed;
    }
  }
  return best;
}

/// Drops what is expected and not awaited, the latest first, until so many
/// bytes fit.
void RowFetches::forget_expected(Stage stage, uint64_t bytes,
                                 Actions& actions) {
  for (auto at = batches_.end();
       at != batches_.begin() && held_ + bytes > options_.window_bytes;) {
    --at;
    if (at->second.awaited || at->second.stage != stage)
      continue;
    actions.emplace_back(Forget{at->first});
    at = erase(at);
  }
}

void RowFetches::forget_stale(Actions& actions) {
  while (!batches_.empty()) {
    const auto oldest = batches_.begin();
    if (oldest->second.awaited
        || taken_ - oldest->second.taken_before
             <= stale_windows * options_.window_bytes)
      return;
    actions.emplace_back(Forget{oldest->first});
    erase(oldest);
  }
}

/// Whether a batch may be asked for now.
bool RowFetches::make_room(uint64_t bytes, bool awaited, Actions& actions) {
  if (awaited) {
    forget_expected(Stage::here, bytes, actions);
    forget_expected(Stage::asked, bytes, actions);
  }
  return held_ == 0 || held_ + bytes <= options_.window_bytes;
}

/// Asks for what can be had, first for what is awaited.
void RowFetches::ask(Actions& actions) {
  for (const bool awaited : {true, false})
    while (!wanted_[awaited].empty()) {
      const auto number = *wanted_[awaited].begin();
      auto& batch = batches_.at(number);
      const auto reader = idlest();
      if (!reader || !make_room(batch.bytes, awaited, actions))
        return;
      wanted_[awaited].erase(number);
      batch.stage = Stage::asked;
      batch.reader = *reader;
      batch.request = ++requests_;
      held_ += batch.bytes;
      owed_[*reader] += batch.bytes;
      actions.emplace_back(Ask{number, requests_, *reader});
    }
}

std::string RowFetches::why_none(const Batch& batch) const {
  if (batch.stage == Stage::asked)
    return to_string(batch.reader) + " has not answered";
  if (readers_.empty())
    return "no reader is there";
  if (!idlest())
    return "there is no link to " + to_string(readers_);
  return "other batches come first";
}

} // namespace troupe

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

void RowFetches::arrived(uint64_t batch, uint64_t request) {
  const auto found = batches_.find(batch);
  if (found == batches_.end() || found->second.request != request)
    return;
  auto& one = found->second;
  withdraw(one);
  wanted_[one.awaited].erase(batch);
  one.stage = Stage::here;
  held_ += one.bytes;
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

RowFetches::Actions RowFetches::readers(const std::vector<RoleId>& names,
                                        const std::vector<RoleId>& others) {
  Actions actions;
  readers_ = names;
  others_ = others;
  const auto reads = [&](RoleId reader) {
    return std::ranges::find(names, reader) != names.end()
           || std::ranges::find(others, reader) != others.end();
  };
  std::erase_if(unlinkable_, [&](const auto& x) { return !reads(x.first); });
  for (auto reader : readers_)
    if (links_.try_emplace(reader, LinkState::linking).second)
      actions.emplace_back(Link{reader});
  for (auto at = batches_.begin(); at != batches_.end(); ++at)
    if (at->second.stage == Stage::asked && !reads(at->second.reader))
      want(at);
  ask(actions);
  return actions;
}

RowFetches::Actions RowFetches::linked(RoleId reader) {
  Actions actions;
  links_[reader] = LinkState::linked;
  unlinkable_.erase(reader);
  ask(actions);
  return actions;
}

RowFetches::Actions RowFetches::unlinked(RoleId reader, uint64_t now_ms,
                                         const std::string& why) {
  Actions actions;
  links_.erase(reader);
  if (why.empty())
    unlinkable_.erase(reader);
  else
    unlinkable_[reader] = why;
  for (auto* some : {&readers_, &others_})
    std::erase(*some, reader); // until the coordinator says so again
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
  bool overdue = false;
  for (auto at = batches_.begin(); at != batches_.end();) {
    auto& batch = at->second;
    const bool waits = batch.awaited && batch.stage != Stage::here;
    const auto waited_ms = waits ? now_ms - batch.since_ms : 0;
    late = late || waited_ms >= options_.late_ms;
    if (waits && batch.stage == Stage::asked) {
      if (!batch.asked_ms)
        batch.asked_ms = now_ms;
      else if (is_overdue(batch, now_ms) && idlest(batch.reader)) {
        batch.passed_over = batch.reader;
        ++batch.slow;
        want(at);
      } else
        overdue = overdue || is_overdue(batch, now_ms);
    }
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
  if (overdue || (late && !reads_itself()))
    link_other(actions);
  if (looked_ms_)
    look(late || !idlest() ? options_.hurry_ms : options_.look_ms, now_ms,
         actions);
  ask(actions);
  return actions;
}

std::optional<std::vector<RoleId>> RowFetches::late(uint64_t now_ms) const {
  std::optional<std::vector<RoleId>> out;
  for (const auto& [number, batch] : batches_) {
    if (!batch.awaited || batch.stage == Stage::here
        || now_ms - batch.since_ms < options_.late_ms)
      continue;
    if (!out)
      out.emplace();
    if (batch.stage == Stage::asked
        && std::ranges::find(*out, batch.reader) == out->end())
      out->push_back(batch.reader);
  }
  return out;
}

bool RowFetches::is_overdue(const Batch& batch, uint64_t now_ms) const {
  return batch.asked_ms
         && now_ms - *batch.asked_ms >= options_.answer_ms << batch.slow;
}

bool RowFetches::is_linked(RoleId reader) const {
  const auto link = links_.find(reader);
  return link != links_.end() && link->second == LinkState::linked;
}

/// Whether a reader of this worker's own is linked.
bool RowFetches::reads_itself() const {
  return std::ranges::any_of(readers_,
                             [this](RoleId x) { return is_linked(x); });
}

/// Links the next of the others, unless one is being linked; first those that
/// were not tried in vain.
void RowFetches::link_other(Actions& actions) {
  std::optional<RoleId> next;
  for (auto reader : others_) {
    if (const auto link = links_.find(reader); link != links_.end()) {
      if (link->second == LinkState::linking)
        return;
      continue;
    }
    if (!next || (unlinkable_.contains(*next) && !unlinkable_.contains(reader)))
      next = reader;
  }
  if (!next)
    return;
  links_[*next] = LinkState::linking;
  actions.emplace_back(Link{*next});
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
  one.asked_ms.reset();
  wanted_[!one.awaited].erase(number);
  wanted_[one.awaited].insert(number);
}

RowFetches::Batches::iterator RowFetches::erase(Batches::iterator batch) {
  withdraw(batch->second);
  for (auto& wanted : wanted_)
    wanted.erase(batch->first);
  return batches_.erase(batch);
}

/// The linked reader that owes least, of the worker's own where one is linked,
/// but for one.
std::optional<RoleId> RowFetches::idlest(std::optional<RoleId> but) const {
  std::optional<RoleId> best;
  uint64_t least = 0;
  for (const auto* some : {&readers_, &others_}) {
    for (auto reader : *some) {
      if (reader == but || !is_linked(reader))
        continue;
      const auto found = owed_.find(reader);
      const auto owed = found == owed_.end() ? 0 : found->second;
      if (!best || owed < least) {
        best = reader;
        least = owed;
      }
    }
    if (best)
      break;
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
      auto reader = idlest(batch.passed_over);
      if (!reader)
        reader = idlest();
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
  if (idlest())
    return "other batches come first";
  if (readers_.empty() && unlinkable_.empty())
    return "no reader is there";
  if (unlinkable_.empty())
    return "there is no link to " + to_string(readers_) + " yet";
  std::string out = "there is no link to ";
  for (const auto& [reader, why] : unlinkable_)
    out += (reader == unlinkable_.begin()->first ? "" : ", ")
           + to_string(reader) + " (" + why + ")";
  return out;
}

} // namespace troupe

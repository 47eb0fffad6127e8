#include "strategies/quorum_log.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

LogEnd LogShape::end() const {
  return terms.empty() ? base : LogEnd{terms.back(), base.id + terms.size()};
}

std::optional<uint64_t> LogShape::term_of(uint64_t id) const {
  if (id == base.id)
    return base.term;
  if (id < base.id || id > end().id)
    return std::nullopt;
  return terms[id - base.id - 1];
}

void LogShape::fold(uint64_t id) {
  if (id <= base.id)
    return;
  const auto term = term_of(id);
  strategies::require(term.has_value(), "an entry to fold is not there");
  terms.erase(terms.begin(),
              terms.begin() + static_cast<std::ptrdiff_t>(id - base.id));
  base = {*term, id};
}

Voter::Voter(uint64_t promised, LogShape log, uint64_t patience_ms)
  : promised_(std::max(promised, log.end().term)),
    log_(std::move(log)),
    decided_(log_.base.id),
    patience_ms_(patience_ms) {}

Voter::Vote Voter::asked(uint64_t term, bool trial, uint64_t now_ms) {
  Vote vote;
  vote.granted = term > promised_ && now_ms >= leader_until_ms_;
  if (vote.granted && !trial)
    promised_ = term;
  vote.promised = promised_;
  vote.end = end();
  return vote;
}

Voter::Verdict Voter::take(const LogBatch& batch, uint64_t now_ms) {
  Verdict verdict;
  verdict.led = batch.term >= promised_;
  if (verdict.led) {
    promised_ = batch.term;
    leader_until_ms_ = now_ms + patience_ms_;
    if (batch.snapshot)
      take_snapshot(batch, verdict);
    else
      take_entries(batch, verdict);
    if (verdict.fits)
      decided_ = std::max(decided_, std::min(batch.decided, verdict.have));
  }
  verdict.promised = promised_;
  return verdict;
}

/// One that comes late replaces nothing: its last entry is here, or folded, and
/// what is folded was decided.
void Voter::take_snapshot(const LogBatch& batch, Verdict& verdict) {
  const auto& last = batch.after;
  verdict.fits = true;
  verdict.have = last.id;
  verdict.replaced = last.id > log_.base.id
                     && log_.term_of(last.id) != last.term;
  if (verdict.replaced)
    log_ = {last, {}};
  verdict.keep = end().id;
}

void Voter::take_entries(const LogBatch& batch, Verdict& verdict) {
  const auto before = batch.after.id;
  verdict.fits = before < log_.base.id
                 || log_.term_of(before) == batch.after.term;
  if (!verdict.fits) {
    verdict.have = std::min(end().id, before - 1);
    return;
  }
  // What is folded is decided, and so the same in the batch.
  auto at = std::max(before, log_.base.id);
  verdict.first = std::min<size_t>(at - before, batch.terms.size());
  while (verdict.first < batch.terms.size()
         && log_.term_of(at + 1) == batch.terms[verdict.first]) {
    ++at;
    ++verdict.first;
  }
  // What follows is of a leader who did not have it decided.
  verdict.keep = verdict.first < batch.terms.size() ? at : end().id;
  log_.terms.resize(verdict.keep - log_.base.id);
  log_.terms.insert(log_.terms.end(),
                    batch.terms.begin()
                      + static_cast<std::ptrdiff_t>(verdict.first),
                    batch.terms.end());
  verdict.have = before + batch.terms.size();
}

void Voter::fold(uint64_t id) {
  strategies::require(id <= decided_, "what is folded is not decided");
  log_.fold(id);
}

Candidacy::Wish Candidacy::begin() {
  // Nobody promised anything in a trial: its term is still free.
  const auto used = wish_.trial ? wish_.term - 1 : wish_.term;
  wish_ = {std::max(promised_, used) + 1, true};
  grants_.clear();
  return wish_;
}

std::optional<Candidacy::Wish>
Candidacy::answered(uint32_t voter, const Wish& wish, const Voter::Vote& vote) {
  promised_ = std::max(promised_, vote.promised);
  if (!vote.granted || wish.term != wish_.term || wish.trial != wish_.trial
      || elected())
    return std::nullopt;
  if (grants_.empty() || vote.end > newest_) {
    newest_ = vote.end;
    best_ = voter;
  }
  grants_.insert(voter);
  if (!wish_.trial || grants_.size() <= voters_ / 2)
    return std::nullopt;
  wish_.trial = false;
  grants_.clear();
  return wish_;
}

std::optional<uint32_t> Candidacy::elected() const {
  if (wish_.trial || grants_.size() <= voters_ / 2)
    return std::nullopt;
  return best_;
}

Leadership::Leadership(uint32_t voters, uint64_t term, LogShape log)
  : term_(term),
    log_(std::move(log)),
    followers_(voters),
    decided_(log_.base.id) {
  strategies::require(log_.end().term < term, "a log of a later term");
  for (auto& follower : followers_)
    follower.next = end() + 1;
}

uint64_t Leadership::append() {
  log_.terms.push_back(term_);
  return end();
}

void Leadership::fold(uint64_t id) {
  strategies::require(id <= decided_, "what is folded is not decided");
  log_.fold(id);
}

std::optional<LogBatch> Leadership::next(uint32_t voter, size_t most,
                                         bool idle) {
  auto& follower = followers_.at(voter);
  const auto before = follower.next - 1;
  const auto base = log_.base.id;
  LogBatch batch;
  batch.term = term_;
  batch.decided = decided_;
  batch.snapshot = before < base;
  batch.after = batch.snapshot ? log_.base
                               : LogEnd{log_.term_of(before).value(), before};
  const auto count = batch.snapshot ? 0
                                    : std::min<size_t>(most, end() - before);
  if (deposed_ || follower.awaited || (count == 0 && !batch.snapshot && !idle))
    return std::nullopt;
  follower.awaited = true;
  const auto from = log_.terms.begin()
                    + static_cast<std::ptrdiff_t>(batch.after.id - base);
  batch.terms.assign(from, from + static_cast<std::ptrdiff_t>(count));
  return batch;
}

void Leadership::answered(uint32_t voter, const Voter::Verdict& verdict) {
  auto& follower = followers_.at(voter);
  follower.awaited = false;
  follower.silent = 0;
  if (!verdict.led) {
    deposed_ = true;
    return;
  }
  follower.next = std::min(verdict.have, end()) + 1;
  if (!verdict.fits)
    return;
  follower.matched = std::max(follower.matched, verdict.have);
  decide();
}

void Leadership::lost(uint32_t voter) {
  followers_.at(voter).awaited = false;
}

void Leadership::tick(uint32_t most) {
  for (auto& follower : followers_)
    ++follower.silent;
  deposed_ = deposed_ || !heard(most);
}

bool Leadership::heard(uint32_t most) const {
  const auto lately = std::ranges::count_if(followers_, [&](const auto& x) {
    return x.silent <= most;
  });
  return static_cast<size_t>(lately) > followers_.size() / 2;
}

/// Only an entry of its own term decides those before it: one of an earlier
/// term may still be cut, though a majority has it (Raft, 5.4.2).
void Leadership::decide() {
  std::vector<uint64_t> matched;
  for (const auto& follower : followers_)
    matched.push_back(follower.matched);
  std::ranges::sort(matched);
  const auto most = matched[(matched.size() - 1) / 2];
  if (most > decided_ && log_.term_of(most) == term_)
    decided_ = most;
}

} // namespace troupe

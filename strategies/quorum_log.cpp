#include "strategies/quorum_log.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

Voter::Voter(uint64_t promised, std::vector<uint64_t> terms,
             uint64_t patience_ms)
  : promised_(promised), terms_(std::move(terms)), patience_ms_(patience_ms) {
  if (!terms_.empty())
    promised_ = std::max(promised_, terms_.back());
}

LogEnd Voter::end() const {
  return terms_.empty() ? LogEnd{} : LogEnd{terms_.back(), terms_.size()};
}

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
    const auto before = batch.after.id;
    verdict.fits = before == 0
                   || (before <= terms_.size()
                       && terms_[before - 1] == batch.after.term);
    if (verdict.fits) {
      auto at = before;
      while (verdict.first < batch.terms.size() && at < terms_.size()
             && terms_[at] == batch.terms[verdict.first]) {
        ++at;
        ++verdict.first;
      }
      // What follows is of a leader who did not have it decided.
      verdict.keep = verdict.first < batch.terms.size() ? at : terms_.size();
      terms_.resize(verdict.keep);
      terms_.insert(terms_.end(),
                    batch.terms.begin()
                      + static_cast<std::ptrdiff_t>(verdict.first),
                    batch.terms.end());
      verdict.have = before + batch.terms.size();
    } else {
      verdict.have = std::min<uint64_t>(terms_.size(), before - 1);
    }
  }
  verdict.promised = promised_;
  return verdict;
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

Leadership::Leadership(uint32_t voters, uint64_t term,
                       std::vector<uint64_t> terms)
  : term_(term), terms_(std::move(terms)), followers_(voters) {
  strategies::require(terms_.empty() || terms_.back() < term,
                      "a log of a later term");
  for (auto& follower : followers_)
    follower.next = terms_.size() + 1;
}

uint64_t Leadership::append() {
  terms_.push_back(term_);
  return terms_.size();
}

std::optional<LogBatch> Leadership::next(uint32_t voter, size_t most,
                                         bool idle) {
  auto& follower = followers_.at(voter);
  const auto first = follower.next - 1;
  const auto count = std::min<size_t>(most, terms_.size() - first);
  if (deposed_ || follower.awaited || (count == 0 && !idle))
    return std::nullopt;
  follower.awaited = true;
  LogBatch batch;
  batch.term = term_;
  if (first > 0)
    batch.after = {terms_[first - 1], first};
  const auto from = terms_.begin() + static_cast<std::ptrdiff_t>(first);
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
  follower.next = std::min<uint64_t>(verdict.have, terms_.size()) + 1;
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
  if (most > decided_ && terms_[most - 1] == term_)
    decided_ = most;
}

} // namespace troupe

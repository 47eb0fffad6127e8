#include "strategies/commit_book.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

CommitBook::CommitBook(uint32_t virtual_ranks, uint32_t owners, bool partial)
  : virtual_ranks_(virtual_ranks), partial_(partial) {
  for (uint32_t i = 0; i < owners; ++i)
    versions_[i] = 0;
}

void CommitBook::owners(const std::set<uint32_t>& owners, uint64_t version) {
  versions_.clear();
  for (auto owner : owners)
    versions_[owner] = version;
}

void CommitBook::owners(std::map<uint32_t, uint64_t> versions) {
  versions_ = std::move(versions);
}

std::vector<CommitBook::Commit>
CommitBook::leaves(uint64_t step, const std::vector<Leaf>& leaves) {
  if (step < committed_) {
    for (const auto& leaf : leaves)
      recomputed_ += is_late(step, leaf.virtual_rank) ? 0 : 1;
    return {};
  }
  auto& known = leaves_[step];
  auto& seen = seen_[step];
  known.resize(virtual_ranks_);
  seen.resize(virtual_ranks_);
  for (const auto& leaf : leaves) {
    if (leaf.virtual_rank >= virtual_ranks_)
      continue;
    if (seen[leaf.virtual_rank])
      ++recomputed_;
    seen[leaf.virtual_rank] = true;
    known[leaf.virtual_rank] = leaf;
  }
  return settle();
}

std::vector<CommitBook::Commit>
CommitBook::again(uint64_t step, const std::vector<Leaf>& leaves) {
  if (step < committed_)
    return {};
  const auto seen = seen_.find(step);
  auto unheard = leaves;
  if (seen != seen_.end())
    std::erase_if(unheard, [&](const Leaf& leaf) {
      return leaf.virtual_rank < seen->second.size()
             && seen->second[leaf.virtual_rank];
    });
  return this->leaves(step, unheard);
}

std::vector<CommitBook::Commit> CommitBook::applied(uint32_t index,
                                                    uint64_t version) {
  if (auto owner = versions_.find(index); owner != versions_.end())
    owner->second = std::max(owner->second, version);
  return settle();
}

std::vector<CommitBook::Commit>
CommitBook::made_of(uint64_t step, const std::vector<RankRange>& ranks) {
  if (!partial_ || step < committed_)
    return {};
  auto& in = in_[step];
  in.assign(virtual_ranks_, false);
  for (auto range : ranks)
    for (auto rank = range.lo; rank < range.hi && rank < virtual_ranks_; ++rank)
      in[rank] = true;
  return settle();
}

/// Its step was committed without it; the second time it is not.
bool CommitBook::is_late(uint64_t step, uint32_t rank) {
  if (partial_)
    return true;
  auto missed = missed_.find(step);
  return missed != missed_.end() && missed->second.erase(rank) > 0;
}

/// The loss of every leaf that is in the step is known, or will not come.
bool CommitBook::whole(uint64_t step) {
  auto seen = seen_[step];
  if (auto excused = excused_.find(step); excused != excused_.end()) {
    seen.resize(virtual_ranks_);
    for (size_t rank = 0; rank < seen.size(); ++rank)
      seen[rank] = seen[rank] || excused->second[rank];
  }
  if (seen.empty())
    return false;
  if (!partial_)
    return std::find(seen.begin(), seen.end(), false) == seen.end();
  const auto& in = in_[step];
  for (size_t rank = 0; rank < in.size(); ++rank)
    if (in[rank] && !seen[rank])
      return false;
  return !in.empty();
}

std::vector<CommitBook::Commit> CommitBook::forgive(uint64_t version) {
  forgiven_ = std::max(forgiven_, version);
  return settle();
}

std::vector<CommitBook::Commit>
CommitBook::excuse(uint64_t step, const std::vector<RankRange>& ranks) {
  auto& excused = excused_[step];
  excused.resize(virtual_ranks_); // what an epoch before excused stays so
  for (auto range : ranks)
    for (auto rank = range.lo; rank < range.hi && rank < virtual_ranks_; ++rank)
      excused[rank] = true;
  return settle();
}

void CommitBook::resume(uint64_t committed, uint64_t leaves_recomputed,
                        uint64_t ranks_left_out) {
  rollback(committed);
  recomputed_ = leaves_recomputed;
  left_out_ = ranks_left_out;
}

/// Remembers whose reports were not waited for; they are a few steps late.
void CommitBook::miss(uint64_t step) {
  constexpr uint64_t kept_steps = 64;
  const auto& seen = seen_[step];
  for (uint32_t rank = 0; rank < virtual_ranks_; ++rank)
    if (seen.empty() || !seen[rank])
      missed_[step].insert(rank);
  if (!missed_.empty() && missed_.begin()->first + kept_steps < step)
    missed_.erase(missed_.begin());
}

uint64_t CommitBook::rollback(uint64_t version) {
  const auto undone = committed_ > version ? committed_ - version : 0;
  committed_ = version;
  forgiven_ = 0;
  for (auto& [owner, held] : versions_)
    held = version;
  leaves_.clear();
  seen_.clear();
  excused_.clear();
  in_.clear();
  missed_.clear();
  return undone;
}

std::vector<CommitBook::Commit> CommitBook::settle() {
  std::vector<Commit> commits;
  auto reduced = ~uint64_t{0};
  for (const auto& [owner, held] : versions_)
    reduced = std::min(reduced, held);
  while (committed_ < reduced) {
    if (!whole(committed_) && committed_ >= forgiven_)
      break; // the losses are on their way
    commits.push_back(commit_of(committed_));
    const auto& in = in_[committed_];
    left_out_ += std::count(in.begin(), in.end(), false);
    miss(committed_);
    leaves_.erase(committed_);
    seen_.erase(committed_);
    excused_.erase(committed_);
    in_.erase(committed_);
    ++committed_;
  }
  return commits;
}

/// Its loss is the mean over all ranks that are in it, or it has none: of some
/// of them alone it would be another figure.
CommitBook::Commit CommitBook::commit_of(uint64_t step) {
  Commit commit{step};
  const auto& in = in_[step];
  const auto& seen = seen_[step];
  const auto& leaves = leaves_[step];
  double sum = 0;
  bool all = !seen.empty();
  for (size_t rank = 0; rank < leaves.size(); ++rank) {
    if (!in.empty() && !in[rank])
      continue;
    all = all && seen[rank];
    sum += leaves[rank].loss_sum;
    commit.samples += leaves[rank].samples;
  }
  if (all && commit.samples > 0)
    commit.loss = sum / commit.samples;
  return commit;
}

bool CommitBook::has_leaves(uint64_t step, RankRange ranks) const {
  const auto seen = seen_.find(step);
  if (seen == seen_.end() || seen->second.empty())
    return ranks.size() == 0;
  for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
    if (!seen->second[rank])
      return false;
  return true;
}

bool CommitBook::holds(uint32_t owner, uint64_t version) const {
  const auto known = versions_.find(owner);
  return known == versions_.end() || known->second >= version;
}

} // namespace troupe

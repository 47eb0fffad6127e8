#include "strategies/checkpoint_schedule.hpp"

#include <algorithm>

namespace troupe {
namespace {

size_t count_new(const std::vector<KeptCheckpoint>& there) {
  return static_cast<size_t>(
    std::ranges::count(there, false, &KeptCheckpoint::old));
}

} // namespace

std::optional<uint64_t> CheckpointSchedule::due(uint64_t committed,
                                                bool at_once, uint64_t now_ms) {
  if (options_.every == 0)
    return std::nullopt;
  if (state_ == State::asked && committed >= version_) {
    if (!passed_ms_)
      passed_ms_ = now_ms;
    if (now_ms - *passed_ms_ < options_.patience_ms)
      return std::nullopt;
    lead_ = std::min(2 * lead_, max_lead);
    state_ = State::idle;
    last_ = version_;
  }
  if (state_ != State::idle)
    return std::nullopt;
  const auto every = options_.every;
  const auto reached = std::max(last_, options_.from);
  if (at_once) {
    if (committed / every <= reached / every)
      return std::nullopt;
    version_ = committed;
  } else {
    const auto after = std::max(reached + 1, committed + lead_);
    version_ = (after + every - 1) / every * every;
  }
  state_ = State::asked;
  passed_ms_.reset();
  return version_;
}

std::optional<uint64_t> CheckpointSchedule::again(uint64_t committed,
                                                  uint64_t now_ms) {
  if (state_ != State::asked)
    return std::nullopt;
  if (version_ < committed) {
    state_ = State::idle;
    last_ = version_;
    return std::nullopt;
  }
  passed_ms_.reset();
  if (committed >= version_)
    passed_ms_ = now_ms;
  return version_;
}

bool CheckpointSchedule::arrived(uint64_t version) {
  if (state_ != State::asked || version != version_)
    return false;
  state_ = State::writing;
  return true;
}

void CheckpointSchedule::written() {
  if (state_ != State::writing)
    return;
  state_ = State::idle;
  last_ = std::max(last_, version_);
}

void CheckpointSchedule::rolled_back(uint64_t version) {
  if (state_ == State::asked)
    state_ = State::idle;
  last_ = std::min(last_, version);
  if (state_ == State::writing)
    version_ = std::min(version_, version);
}

std::vector<size_t>
checkpoints_to_remove(const std::vector<KeptCheckpoint>& there, size_t keep,
                      std::optional<size_t> needed, size_t old_at_start) {
  std::vector<size_t> out;
  const auto fresh = count_new(there);
  const bool old_may_go = fresh >= std::min(old_at_start, keep);
  size_t kept = 0;
  for (size_t i = 0; i < there.size(); ++i) {
    const bool replaced = i > 0 && there[i].step == there[i - 1].step;
    if (!replaced && kept < keep)
      ++kept;
    else if (needed != i && (!there[i].old || old_may_go))
      out.push_back(i);
  }
  if (fresh == 0)
    return out;
  // Runs may end before they have as many new ones, again and again.
  for (size_t i = there.size();
       i-- > 0 && there.size() - out.size() > 2 * keep;)
    if (there[i].old && needed != i && std::ranges::count(out, i) == 0)
      out.push_back(i);
  return out;
}

std::optional<size_t>
checkpoint_that_makes_room(const std::vector<KeptCheckpoint>& there,
                           std::optional<size_t> needed, size_t removed) {
  const auto oldest = [&](bool old) -> std::optional<size_t> {
    for (size_t i = there.size(); i-- > 0;)
      if (there[i].old == old && needed != i)
        return i;
    return std::nullopt;
  };
  const auto fresh = count_new(there);
  if (const auto old = oldest(true); old && fresh > removed)
    return old;
  return fresh > 1 ? oldest(false) : std::nullopt;
}

} // namespace troupe

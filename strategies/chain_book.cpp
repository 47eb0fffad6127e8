#include "strategies/chain_book.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

bool contains(const std::vector<uint32_t>& list, uint32_t x) {
  return std::ranges::find(list, x) != list.end();
}

size_t place_in(const std::vector<uint32_t>& list, uint32_t x) {
  return std::ranges::find(list, x) - list.begin();
}

} // namespace

ChainBook::ChainBook(std::vector<std::vector<uint32_t>> wanted)
  : wanted_(std::move(wanted)) {
  for (const auto& shards : wanted_) {
    strategies::require(!shards.empty(), "a slice needs a shard");
    chains_.push_back({shards, {}, false});
  }
}

const std::vector<uint32_t>& ChainBook::wanted(uint32_t slice) const {
  return wanted_.at(slice);
}

const ChainBook::Chain& ChainBook::chain(uint32_t slice) const {
  return chains_.at(slice);
}

void ChainBook::want(uint32_t slice, std::vector<uint32_t> shards) {
  strategies::require(!shards.empty(), "a slice needs a shard");
  wanted_.at(slice) = std::move(shards);
}

bool ChainBook::viable(const std::set<uint32_t>& present) const {
  return missing(present).empty();
}

std::set<uint32_t> ChainBook::missing(const std::set<uint32_t>& present) const {
  std::set<uint32_t> out;
  for (const auto& chain : chains_) {
    auto is_present = [&](uint32_t x) { return present.contains(x); };
    if (std::ranges::none_of(chain.replicas, is_present))
      out.insert(chain.replicas.begin(), chain.replicas.end());
  }
  return out;
}

void ChainBook::decide(const std::set<uint32_t>& present,
                       const std::vector<std::vector<Held>>& held) {
  strategies::require(held.size() == chains_.size(), "one list for each slice");
  for (uint32_t i = 0; i < chains_.size(); ++i)
    chains_[i] = decide(i, present, held[i]);
}

ChainBook::Chain ChainBook::decide(uint32_t slice,
                                   const std::set<uint32_t>& present,
                                   std::vector<Held> held) const {
  const auto& wanted = wanted_[slice];
  const auto& before = chains_[slice].replicas;
  std::erase_if(held,
                [&](const Held& x) { return !present.contains(x.shard); });
  Chain out;
  if (held.empty()) {
    out.lost = true;
    std::ranges::copy_if(wanted, std::back_inserter(out.replicas),
                         [&](uint32_t x) { return present.contains(x); });
    return out;
  }
  const auto history = std::ranges::max(held, {}, &Held::epoch).epoch;
  std::erase_if(held, [&](const Held& x) { return x.epoch < history; });
  // Newer versions first; then as before; newcomers last.
  std::ranges::sort(held, [&](const Held& a, const Held& b) {
    if (a.newest != b.newest)
      return a.newest > b.newest;
    const auto x = place_in(before, a.shard);
    const auto y = place_in(before, b.shard);
    return x != y ? x < y : a.shard < b.shard;
  });
  for (const auto& x : held)
    out.replicas.push_back(x.shard);
  for (auto shard : wanted)
    if (present.contains(shard) && !contains(out.replicas, shard))
      out.learners.push_back(shard);
  const bool complete = std::ranges::all_of(wanted, [&](uint32_t x) {
    return contains(out.replicas, x);
  });
  // Where the newest has not reached all, who leaves could take it along.
  const bool level = held.front().newest == held.back().newest;
  if (complete && level)
    std::erase_if(out.replicas,
                  [&](uint32_t x) { return !contains(wanted, x); });
  return out;
}

bool ChainBook::settled() const {
  for (size_t i = 0; i < chains_.size(); ++i)
    if (std::set<uint32_t>(chains_[i].replicas.begin(),
                           chains_[i].replicas.end())
        != std::set<uint32_t>(wanted_[i].begin(), wanted_[i].end()))
      return false;
  return true;
}

std::vector<std::vector<uint32_t>>
rebalance(const std::vector<std::vector<uint32_t>>& chains,
          const std::vector<uint64_t>& bytes, const std::set<uint32_t>& shards,
          uint32_t length) {
  strategies::require(!shards.empty(), "slices need a shard");
  strategies::require(chains.size() == bytes.size(), "bytes of each slice");
  const auto most = std::min<size_t>(length, shards.size());
  std::map<uint32_t, uint64_t> load;
  for (auto shard : shards)
    load[shard] = 0;
  auto out = chains;
  for (size_t i = 0; i < out.size(); ++i) {
    std::erase_if(out[i], [&](uint32_t x) { return !shards.contains(x); });
    if (out[i].size() > most)
      out[i].resize(most);
    for (auto shard : out[i])
      load[shard] += bytes[i];
  }
  auto least_outside = [&](const std::vector<uint32_t>& chain) {
    auto best = load.end();
    for (auto at = load.begin(); at != load.end(); ++at)
      if (!contains(chain, at->first)
          && (best == load.end() || at->second < best->second))
        best = at;
    return best;
  };
  for (size_t i = 0; i < out.size(); ++i)
    while (out[i].size() < most) {
      auto to = least_outside(out[i]);
      to->second += bytes[i];
      out[i].push_back(to->first);
    }
  // Each move must make the larger of two loads smaller.
  for (bool moved = true; std::exchange(moved, false);) {
    for (size_t i = 0; i < out.size(); ++i)
      for (auto& from : out[i]) {
        auto to = least_outside(out[i]);
        if (to == load.end() || to->second + bytes[i] >= load[from])
          continue;
        load[from] -= bytes[i];
        to->second += bytes[i];
        from = to->first;
        moved = true;
      }
  }
  return out;
}

} // namespace troupe

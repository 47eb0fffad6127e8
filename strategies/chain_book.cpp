#include "strategies/chain_book.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <optional>
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

ChainBook::ChainBook(std::vector<std::vector<uint32_t>> wanted, bool decides)
  : decides_(decides), wanted_(std::move(wanted)) {
  for (const auto& shards : wanted_) {
    chains_.push_back({shards, {}, false});
    auto& since = since_.emplace_back();
    for (auto shard : shards)
      since[shard] = 0;
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

void ChainBook::resume(std::vector<std::vector<uint32_t>> replicas,
                       std::vector<std::vector<uint32_t>> wanted,
                       uint64_t epoch) {
  strategies::require(replicas.size() == chains_.size()
                        && wanted.size() == wanted_.size(),
                      "one list for each slice");
  wanted_ = std::move(wanted);
  for (size_t i = 0; i < chains_.size(); ++i) {
    chains_[i] = {std::move(replicas[i]), {}, false};
    since_[i].clear(); // since when is not written down: the newest is safe
    for (auto shard : chains_[i].replicas)
      since_[i][shard] = epoch;
  }
  epoch_ = epoch;
}

bool ChainBook::viable(const std::set<uint32_t>& present) const {
  return missing(present).empty();
}

std::set<uint32_t> ChainBook::missing(const std::set<uint32_t>& present) const {
  std::set<uint32_t> out;
  for (const auto& chain : chains_) {
    auto is_present = [&](uint32_t x) { return present.contains(x); };
    if (std::ranges::none_of(chain.replicas, is_present)) // of none: no one
      out.insert(chain.replicas.begin(), chain.replicas.end());
  }
  return out;
}

void ChainBook::decide(const std::set<uint32_t>& present,
                       const std::vector<std::vector<Held>>& held,
                       uint64_t epoch) {
  strategies::require(held.size() == chains_.size(), "one list for each slice");
  for (uint32_t i = 0; i < chains_.size(); ++i)
    chains_[i] = decide(i, present, held[i]);
  epoch_ = epoch;
  for (uint32_t i = 0; i < chains_.size(); ++i) {
    std::map<uint32_t, uint64_t> since;
    for (auto shard : chains_[i].replicas) {
      const auto before = since_[i].find(shard);
      since[shard] = before == since_[i].end() ? epoch : before->second;
    }
    since_[i] = std::move(since);
  }
}

bool ChainBook::proven(uint32_t slice, uint32_t shard, uint64_t had) const {
  const auto since = since_.at(slice).find(shard);
  return since != since_[slice].end() && had >= since->second;
}

/// The others leave when those who stay have all that was acknowledged. So they
/// have when one of them has the newest; and when all of them were replicas in
/// the last epoch and had all that their predecessors had: acknowledged is what
/// has been at each of them, and what the others have beyond is as an update
/// that died with its head. Decisions go down the chain by themselves: who has
/// the newest version may lack one that it was not a replica for.
bool ChainBook::may_leave(uint32_t slice, const std::vector<Held>& held) const {
  const auto& wanted = wanted_[slice];
  const auto& before = chains_[slice].replicas;
  const auto stays = [&](const Held& x) { return contains(wanted, x.shard); };
  const auto newest = held.front().newest;
  if (std::ranges::any_of(held, [&](const Held& x) {
        const bool knows = !decides_ || slice > 0
                           || proven(slice, x.shard, x.epoch);
        return stays(x) && x.newest == newest && knows;
      }))
    return true;
  return epoch_ > 0 && std::ranges::all_of(held, [&](const Held& x) {
           return !stays(x) || (x.epoch == epoch_ && contains(before, x.shard));
         });
}

ChainBook::Chain ChainBook::decide(uint32_t slice,
                                   const std::set<uint32_t>& present,
                                   std::vector<Held> held) const {
  const auto& wanted = wanted_[slice];
  const auto& before = chains_[slice].replicas;
  if (wanted.empty())
    return {};
  std::erase_if(held,
                [&](const Held& x) { return !present.contains(x.shard); });
  Chain out;
  if (held.empty()) {
    out.lost = true;
    for (const auto* list : {&wanted, &before}) // before: who was to leave
      if (out.replicas.empty())
        std::ranges::copy_if(*list, std::back_inserter(out.replicas),
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
  if (complete && may_leave(slice, held))
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

bool ChainBook::leaving() const {
  for (size_t i = 0; i < chains_.size(); ++i) {
    const auto& replicas = chains_[i].replicas;
    const auto is_replica = [&](uint32_t x) { return contains(replicas, x); };
    if (std::ranges::all_of(wanted_[i], is_replica)
        && replicas.size() > wanted_[i].size())
      return true;
  }
  return false;
}

std::set<uint32_t> ChainBook::learners() const {
  std::set<uint32_t> out;
  for (const auto& chain : chains_)
    out.insert(chain.learners.begin(), chain.learners.end());
  return out;
}

namespace {

/// What shards have to do if they keep what they are given.
class Loads {
public:
  Loads(const std::set<uint32_t>& shards,
        const std::map<uint32_t, double>& costs)
    : costs_(costs) {
    for (auto shard : shards)
      loads_[shard] = 0;
  }
  double of(uint32_t shard) const { return loads_.at(shard); }
  double with(uint32_t shard, uint64_t bytes) const {
    return of(shard) + static_cast<double>(bytes) * cost(shard);
  }
  void give(uint32_t shard, uint64_t bytes) {
    loads_[shard] = with(shard, bytes);
  }
  void take(uint32_t shard, uint64_t bytes) {
    loads_[shard] -= static_cast<double>(bytes) * cost(shard);
  }
  /// Who would have the least to do with these bytes more; nobody where all
  /// are in the chain.
  std::optional<uint32_t> min_outside(const std::vector<uint32_t>& chain,
                                      uint64_t bytes) const {
    std::optional<uint32_t> best;
    for (const auto& [shard, load] : loads_)
      if (!contains(chain, shard)
          && (!best || with(shard, bytes) < with(*best, bytes)))
        best = shard;
    return best;
  }

private:
  double cost(uint32_t shard) const {
    auto known = costs_.find(shard);
    return known == costs_.end() ? 1 : known->second;
  }

  const std::map<uint32_t, double>& costs_;
  std::map<uint32_t, double> loads_;
};

} // namespace

std::vector<std::vector<uint32_t>>
rebalance(const std::vector<std::vector<uint32_t>>& chains,
          const std::vector<uint64_t>& bytes, const std::set<uint32_t>& shards,
          uint32_t length, const std::map<uint32_t, double>& costs) {
  strategies::require(!shards.empty(), "slices need a shard");
  strategies::require(chains.size() == bytes.size(), "bytes of each slice");
  const auto most = std::min<size_t>(length, shards.size());
  Loads loads{shards, costs};
  auto out = chains;
  for (size_t i = 0; i < out.size(); ++i) {
    std::erase_if(out[i], [&](uint32_t x) { return !shards.contains(x); });
    if (out[i].size() > most)
      out[i].resize(most);
    for (auto shard : out[i])
      loads.give(shard, bytes[i]);
  }
  for (size_t i = 0; i < out.size(); ++i)
    while (!chains[i].empty() && out[i].size() < most) {
      const auto to = *loads.min_outside(out[i], bytes[i]);
      loads.give(to, bytes[i]);
      out[i].push_back(to);
    }
  // Each move must make the larger of two loads smaller.
  for (bool moved = true; std::exchange(moved, false);)
    for (size_t i = 0; i < out.size(); ++i)
      for (auto& from : out[i]) {
        const auto to = loads.min_outside(out[i], bytes[i]);
        if (!to || loads.with(*to, bytes[i]) >= loads.of(from))
          continue;
        loads.take(from, bytes[i]);
        loads.give(*to, bytes[i]);
        from = *to;
        moved = true;
      }
  return out;
}

std::vector<std::vector<uint32_t>>
spread_over_hosts(std::vector<std::vector<uint32_t>> chains,
                  const std::vector<uint64_t>& bytes,
                  const std::map<uint32_t, std::string>& hosts) {
  strategies::require(chains.size() == bytes.size(), "bytes of each slice");
  std::map<uint32_t, uint64_t> loads;
  for (size_t i = 0; i < chains.size(); ++i)
    for (auto shard : chains[i])
      loads[shard] += bytes[i];
  for (size_t i = 0; i < chains.size(); ++i) {
    std::set<std::string> taken;
    for (auto& shard : chains[i]) {
      const auto host = hosts.find(shard);
      if (host == hosts.end() || taken.insert(host->second).second)
        continue;
      std::optional<uint32_t> best;
      for (const auto& [other, where] : hosts)
        if (!taken.contains(where) && !contains(chains[i], other)
            && (!best || loads[other] < loads[*best]))
          best = other;
      if (!best)
        continue;
      // One of a later place may have that host: it is judged when it comes.
      loads[shard] -= bytes[i];
      loads[*best] += bytes[i];
      taken.insert(hosts.at(*best));
      shard = *best;
    }
  }
  return chains;
}

} // namespace troupe

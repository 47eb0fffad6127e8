#include "strategies/leases.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Of leases beyond the first that is not consumed: shards keep a list of what
/// is out of order, which must not outgrow its place (ShardStore).
constexpr uint64_t max_ahead = 2'048;

/// Raises the floor over the exceptions that touch it.
void settle(uint64_t& floor, std::vector<uint64_t>& above) {
  auto next = std::lower_bound(above.begin(), above.end(), floor);
  for (; next != above.end() && *next == floor; ++next)
    ++floor;
  above.erase(above.begin(), next);
}

} // namespace

LeaseSet::LeaseSet(uint64_t floor, std::vector<uint64_t> above)
  : floor_(floor), above_(std::move(above)) {
  std::sort(above_.begin(), above_.end());
  above_.erase(std::unique(above_.begin(), above_.end()), above_.end());
  settle(floor_, above_);
}

bool LeaseSet::contains(uint64_t lease) const {
  return lease < floor_
         || std::binary_search(above_.begin(), above_.end(), lease);
}

bool LeaseSet::insert(uint64_t lease) {
  if (lease < floor_)
    return false;
  const auto at = std::lower_bound(above_.begin(), above_.end(), lease);
  if (at != above_.end() && *at == lease)
    return false;
  above_.insert(at, lease);
  settle(floor_, above_);
  return true;
}

LeaseSet intersection(const LeaseSet& a, const LeaseSet& b) {
  LeaseSet both{std::min(a.floor(), b.floor()), {}};
  const auto end = std::min(a.end(), b.end());
  for (auto lease = both.floor(); lease < end; ++lease)
    if (a.contains(lease) && b.contains(lease))
      both.insert(lease);
  return both;
}

uint64_t lacking(const LeaseSet& a, const LeaseSet& b) {
  uint64_t count = 0;
  for (auto lease = std::min(a.floor(), b.floor()); lease < a.end(); ++lease)
    count += a.contains(lease) && !b.contains(lease) ? 1 : 0;
  return count;
}

LeaseBook::LeaseBook(uint64_t total, uint32_t shards) : total_(total) {
  strategies::require(shards > 0, "a lease is consumed by one shard or more");
  for (uint32_t i = 0; i < shards; ++i)
    applied_[i] = {};
}

std::vector<uint64_t> LeaseBook::grant(uint32_t worker, uint32_t count) {
  std::vector<uint64_t> out;
  while (out.size() < count) {
    if (!returned_.empty())
      out.push_back(returned_.extract(returned_.begin()).value());
    else if (!closed_
             && next_
                  < std::min({total_, hold_, consumed_.floor() + max_ahead}))
      out.push_back(next_++);
    else
      break;
    holder_.emplace(out.back(), worker);
  }
  return out;
}

bool LeaseBook::applied(uint64_t lease, uint32_t shard) {
  auto set = applied_.find(shard);
  if (set == applied_.end() || lease >= next_ || !set->second.insert(lease)
      || !everywhere(lease))
    return false;
  // It may be in either: a push can outlive the worker that sent it.
  holder_.erase(lease);
  returned_.erase(lease);
  return consumed_.insert(lease);
}

void LeaseBook::worker_lost(uint32_t worker) {
  for (auto i = holder_.begin(); i != holder_.end();) {
    if (i->second != worker) {
      ++i;
      continue;
    }
    returned_.insert(i->first);
    i = holder_.erase(i);
  }
}

std::optional<uint32_t> LeaseBook::refused(uint64_t lease) {
  auto found = holder_.find(lease);
  if (found == holder_.end())
    return std::nullopt;
  const auto worker = found->second;
  holder_.erase(found);
  returned_.insert(lease);
  return worker;
}

void LeaseBook::shard_restored(uint32_t shard, const LeaseSet& applied) {
  strategies::require(applied_.contains(shard), "the shard is out of range");
  auto all = applied_;
  all[shard] = applied;
  restored(std::move(all));
}

void LeaseBook::restored(std::map<uint32_t, LeaseSet> applied) {
  strategies::require(!applied.empty(), "a lease is consumed by a shard");
  applied_ = std::move(applied);
  // All shards have what lies below every floor; the rest is decided anew.
  auto floor = applied_.begin()->second.floor();
  for (const auto& [shard, set] : applied_) {
    strategies::require(set.end() <= total_,
                        "the restored set is of a longer run");
    next_ = std::max(next_, set.end());
    floor = std::min(floor, set.floor());
  }
  consumed_ = LeaseSet{floor, {}};
  returned_.erase(returned_.begin(), returned_.lower_bound(floor));
  holder_.erase(holder_.begin(), holder_.lower_bound(floor));
  for (auto lease = floor; lease < next_; ++lease) {
    if (everywhere(lease)) {
      holder_.erase(lease);
      returned_.erase(lease);
      consumed_.insert(lease);
    } else if (!holder_.contains(lease)) {
      returned_.insert(lease);
    }
  }
}

bool LeaseBook::everywhere(uint64_t lease) const {
  return std::ranges::all_of(applied_, [lease](const auto& x) {
    return x.second.contains(lease);
  });
}

void LeaseBook::close() {
  closed_ = true;
}

uint64_t LeaseBook::consumed() const {
  return consumed_.size();
}

std::optional<uint32_t> LeaseBook::holder(uint64_t lease) const {
  auto found = holder_.find(lease);
  return found == holder_.end() ? std::nullopt : std::optional{found->second};
}

std::vector<uint64_t> LeaseBook::open() const {
  std::vector<uint64_t> leases{returned_.begin(), returned_.end()};
  for (const auto& [lease, worker] : holder_)
    leases.push_back(lease);
  return leases;
}

uint64_t LeaseBook::total() const {
  return total_;
}

bool LeaseBook::done() const {
  return consumed() == (closed_ ? next_ : total_);
}

} // namespace troupe

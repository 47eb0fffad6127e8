#include "strategies/host_pool.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe {

HostPool::HostPool(std::vector<HostSlots> hosts, const Options& options)
  : hosts_(std::move(hosts)), options_(options), there_(hosts_.size()) {}

std::string HostPool::refusal(const Plan& plan, uint32_t min_workers) const {
  const auto range = "--hosts " + std::to_string(options_.min_hosts) + ':'
                     + std::to_string(options_.max_hosts);
  if (options_.min_hosts > options_.max_hosts)
    return range + ": expected MIN:MAX, the smaller one first";
  if (options_.max_hosts > hosts_.size())
    return range + ": " + std::to_string(hosts_.size())
           + " hosts are named: name more of them, or ask for fewer";
  if (plan.owner_kind != RoleKind::shard || plan.paired || plan.dense_reduced
      || plan.served)
    return range + ": --strategy " + to_string(plan.strategy)
           + (plan.dense_reduced ? " with --dense all_reduced" : "")
           + " keeps parts of the model, or copies, with roles that stay "
             "where they are; leave it out, or use parameter_server with "
             "--workers MIN:MAX";
  if (min_workers == 0)
    return range
           + ": the job's workers are to come and go with hosts: say how many "
             "it needs, and takes, by --workers MIN:MAX";
  if (plan.chain > options_.min_hosts)
    return range + ": --chain " + std::to_string(plan.chain)
           + " needs as many hosts from the beginning on";
  std::vector<uint32_t> slots;
  for (const auto& host : hosts_)
    slots.push_back(host.slots);
  std::ranges::sort(slots);
  uint32_t fewest = 0;
  for (size_t i = 0; i < options_.min_hosts; ++i)
    fewest += slots[i];
  const auto kept = plan.of_kind(RoleKind::shard).size()
                    + plan.of_kind(RoleKind::reader).size();
  if (kept + min_workers > fewest)
    return range + ": " + std::to_string(kept) + " shards and readers and "
           + std::to_string(min_workers) + " workers need a slot each, and "
           + std::to_string(options_.min_hosts) + " hosts may have "
           + std::to_string(fewest) + " slots: give them more (HOST:N)";
  return {};
}

void HostPool::came(size_t host) {
  if (there_[host])
    return;
  there_[host] = true;
  order_.push_back(host);
}

void HostPool::went(size_t host) {
  there_[host] = false;
  std::erase(order_, host);
  for (auto& [role, where] : roles_)
    if (where == host)
      where.reset();
}

size_t HostPool::there() const {
  return order_.size();
}

/// Those that came first have roles.
bool HostPool::takes(size_t host) const {
  const auto end =
    order_.begin()
    + static_cast<ptrdiff_t>(std::min(order_.size(), options_.max_hosts));
  return std::find(order_.begin(), end, host) != end;
}

uint32_t HostPool::used(size_t host) const {
  return static_cast<uint32_t>(std::ranges::count_if(
    roles_, [&](const auto& one) { return one.second == host; }));
}

bool HostPool::has_of_chain(size_t host, RoleId role) const {
  return std::ranges::any_of(roles_, [&](const auto& one) {
    return one.second == host && one.first != role
           && one.first.kind == RoleKind::shard
           && one.first.index % options_.owners == role.index % options_.owners;
  });
}

std::optional<size_t> HostPool::place(RoleId role) {
  auto& where = roles_[role];
  if (where)
    return where;
  const bool waits = role.kind == RoleKind::worker;
  std::optional<size_t> best;
  std::tuple<bool, bool, double> least;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    const auto slots = hosts_[host].slots;
    const auto has = used(host);
    if (!takes(host) || (waits && has >= slots))
      continue;
    const std::tuple costs{role.kind == RoleKind::shard
                             && has_of_chain(host, role),
                           has >= slots, (has + 1.0) / slots};
    if (!best || costs < least) {
      best = host;
      least = costs;
    }
  }
  where = best;
  return best;
}

std::optional<size_t> HostPool::host_of(RoleId role) const {
  const auto found = roles_.find(role);
  return found == roles_.end() ? std::nullopt : found->second;
}

void HostPool::forget(RoleId role) {
  roles_.erase(role);
}

uint32_t HostPool::free_slots() const {
  uint32_t out = 0;
  for (size_t host = 0; host < hosts_.size(); ++host)
    if (takes(host))
      out += hosts_[host].slots - std::min(hosts_[host].slots, used(host));
  return out;
}

uint32_t HostPool::workers() const {
  return static_cast<uint32_t>(
    std::ranges::count_if(roles_, [](const auto& one) {
      return one.first.kind == RoleKind::worker;
    }));
}

std::vector<RoleId> HostPool::on(size_t host) const {
  std::vector<RoleId> out;
  for (const auto& [role, where] : roles_)
    if (where == host)
      out.push_back(role);
  return out;
}

} // namespace troupe

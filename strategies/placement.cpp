#include "strategies/placement.hpp"

#include "strategies/mesh.hpp"
#include "strategies/require.hpp"
#include "strategies/workers_meet.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>

namespace troupe {
namespace {

constexpr uint32_t max_slots = 10'000;

bool parse_slots(const std::string& text, uint32_t& slots) {
  const auto* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data(), end, slots);
  return failure == std::errc{} && at == end && slots >= 1
         && slots <= max_slots;
}

/// What stands before the last colon, unless that is part of an address of
/// IPv6 without brackets.
bool parse_host(const std::string& text, HostSlots& host,
                std::string& mistake) {
  auto name = text;
  std::string slots = "1";
  const auto bracket = text.find(']');
  const auto colon = text.rfind(':');
  const bool plain_ipv6 = bracket == std::string::npos
                          && std::count(text.begin(), text.end(), ':') > 1;
  if (colon != std::string::npos && !plain_ipv6
      && (bracket == std::string::npos || colon > bracket)) {
    name = text.substr(0, colon);
    slots = text.substr(colon + 1);
  }
  if (name.starts_with('[') && name.ends_with(']'))
    name = name.substr(1, name.size() - 2);
  if (name.empty() || name.front() == '-'
      || name.find_first_of(" \t'\"\\") != std::string::npos) {
    mistake = "expected HOST or HOST:SLOTS, not '" + text + "'";
    return false;
  }
  host.name = name;
  if (!parse_slots(slots, host.slots)) {
    mistake = "'" + text + "': slots are a whole number from 1 to "
              + std::to_string(max_slots);
    return false;
  }
  return true;
}

bool add(const HostSlots& host, std::vector<HostSlots>& hosts,
         std::string& mistake) {
  if (std::ranges::any_of(hosts, [&](const HostSlots& other) {
        return other.name == host.name;
      })) {
    mistake = host.name + " is there twice; give it more slots instead, as in "
              + host.name + ":2";
    return false;
  }
  hosts.push_back(host);
  return true;
}

std::string count_of(size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

} // namespace

bool parse_hosts(const std::string& text, std::vector<HostSlots>& hosts,
                 std::string& mistake) {
  hosts.clear();
  std::istringstream in{text + ","};
  for (std::string word; std::getline(in, word, ',');) {
    HostSlots host;
    if (!parse_host(word, host, mistake) || !add(host, hosts, mistake))
      return false;
  }
  return true;
}

bool parse_host_lines(const std::string& text, std::vector<HostSlots>& hosts,
                      std::map<std::string, std::string>& addresses,
                      std::string& mistake) {
  hosts.clear();
  std::istringstream in{text};
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words{line};
    std::string word;
    if (!(words >> word))
      continue;
    HostSlots host;
    std::string address;
    bool fine = parse_host(word, host, mistake);
    while (fine && words >> word)
      if (word.starts_with("slots=")) {
        fine = parse_slots(word.substr(6), host.slots);
        if (!fine)
          mistake = "'" + word + "': slots are a whole number from 1 to "
                    + std::to_string(max_slots);
      } else if (word.starts_with("address=") && word.size() > 8) {
        address = word.substr(8);
      } else {
        mistake = "'" + word + "': expected slots=N or address=A";
        fine = false;
      }
    if (!fine || !add(host, hosts, mistake)) {
      mistake = "line " + std::to_string(number) + ": " + mistake;
      return false;
    }
    if (!address.empty())
      addresses[host.name] = address;
  }
  if (hosts.empty())
    mistake = "it names no host";
  return !hosts.empty();
}

Placement::Placement(std::vector<HostSlots> hosts)
  : hosts_(std::move(hosts)), used_(hosts_.size()) {
  strategies::require(!hosts_.empty(), "a placement without hosts");
}

bool Placement::place(const Plan& plan, std::string& mistake) {
  size_t roles = 0;
  for (auto kind : {RoleKind::shard, RoleKind::worker, RoleKind::stage,
                    RoleKind::tensor, RoleKind::reader})
    if (kind != RoleKind::shard || !plan.paired)
      roles += plan.of_kind(kind).size();
  const auto slots = std::accumulate(hosts_.begin(), hosts_.end(), size_t{0},
                                     [](size_t sum, const HostSlots& host) {
                                       return sum + host.slots;
                                     });
  if (roles > slots) {
    mistake =
      count_of(roles, "role") + " and " + count_of(slots, "slot")
      + ": each worker, shard, stage, member and reader takes one; give "
        "hosts more slots, as in "
      + hosts_.front().name + ":"
      + std::to_string(hosts_.front().slots + (roles - slots));
    return false;
  }
  if (!place_shards(plan, mistake))
    return false;
  if (plan.paired && plan.chain > 1)
    place_apart(plan.of_kind(RoleKind::worker));
  else
    place_in_order(plan.of_kind(RoleKind::worker));
  place_in_order(plan.of_kind(RoleKind::stage));
  place_in_order(plan.of_kind(RoleKind::tensor));
  place_in_order(plan.of_kind(RoleKind::reader));
  return true;
}

/// Chain by chain, each replica on the host with most free slots that has none
/// of its chain: what is left over is then as even as it can be, so that later
/// chains find room if any order of placing would. Of equals the one with the
/// fewest heads of chains, which workers push to.
bool Placement::place_shards(const Plan& plan, std::string& mistake) {
  const auto owners = std::max<uint32_t>(1, plan.owners);
  const auto chain = std::max<uint32_t>(1, plan.chain);
  const auto too_long = [&] {
    mistake =
      "--chain " + std::to_string(chain) + " on "
      + count_of(hosts_.size(), "host")
      + ": replicas of a shard are on different hosts, each with a free "
        "slot; name more hosts, or make the chain shorter";
    return false;
  };
  if (plan.paired) // each is where the worker of its number is
    return hosts_.size() >= chain || too_long();
  if (plan.of_kind(RoleKind::shard).empty())
    return true;
  std::vector<uint32_t> heads(hosts_.size());
  const auto better = [&](size_t one, size_t other) {
    const auto free = hosts_[one].slots - used_[one];
    const auto others = hosts_[other].slots - used_[other];
    return free != others ? free > others : heads[one] < heads[other];
  };
  for (uint32_t owner = 0; owner < owners; ++owner) {
    std::set<size_t> taken;
    for (uint32_t replica = 0; replica < chain; ++replica) {
      size_t best = hosts_.size();
      for (size_t host = 0; host < hosts_.size(); ++host)
        if (!taken.contains(host) && used_[host] < hosts_[host].slots
            && (best == hosts_.size() || better(host, best)))
          best = host;
      if (best == hosts_.size())
        return too_long();
      taken.insert(best);
      heads[best] += replica == 0 ? 1 : 0;
      put({RoleKind::shard, owner + replica * owners}, best);
    }
  }
  return true;
}

/// The host that is least full, by the share of its slots, once it has one
/// more.
size_t Placement::min_full() const {
  size_t best = 0;
  const auto share = [&](size_t host) {
    const auto beyond = used_[host] >= hosts_[host].slots ? 1'000.0 : 0.0;
    return beyond
           + (used_[host] + 1.0) / std::max<uint32_t>(1, hosts_[host].slots);
  };
  for (size_t host = 1; host < hosts_.size(); ++host)
    if (share(host) < share(best))
      best = host;
  return best;
}

void Placement::place_in_order(const std::vector<RolePlan>& roles) {
  std::vector<size_t> counts(hosts_.size());
  for (size_t i = 0; i < roles.size(); ++i) {
    const auto host = min_full();
    ++used_[host];
    ++counts[host];
  }
  size_t host = 0;
  for (const auto& role : roles) {
    while (counts[host] == 0)
      ++host;
    --counts[host];
    roles_[role.role] = host;
  }
}

/// One host after the other, as long as it has a slot.
void Placement::place_apart(const std::vector<RolePlan>& roles) {
  size_t host = hosts_.size() - 1;
  for (const auto& role : roles) {
    do
      host = (host + 1) % hosts_.size();
    while (used_[host] >= hosts_[host].slots);
    put(role.role, host);
  }
}

void Placement::put(RoleId role, size_t host) {
  ++used_[host];
  roles_[role] = host;
}

size_t Placement::host_of(RoleId role) {
  if (const auto found = roles_.find(role); found != roles_.end())
    return found->second;
  const auto host = min_full();
  put(role, host);
  return host;
}

std::vector<RoleId> Placement::on(size_t host) const {
  std::vector<RoleId> out;
  for (const auto& [role, where] : roles_)
    if (where == host)
      out.push_back(role);
  return out;
}

std::set<std::pair<size_t, size_t>> Placement::links(const Plan& plan,
                                                     bool in_lock_step) const {
  const auto mesh = plan.mesh();
  const auto talk = [&](RoleId one, RoleId other) {
    if (one.kind == RoleKind::reader || other.kind == RoleKind::reader)
      return one.kind == RoleKind::worker || other.kind == RoleKind::worker;
    if (has_model_part(one.kind) && has_model_part(other.kind))
      return mesh.are_linked(one.index, other.index, true)
             // Beside shards pipelines have no gradients to exchange.
             && (!plan.served || in_lock_step
                 || mesh.pipeline_of(one.index)
                      == mesh.pipeline_of(other.index));
    // Shards may be in the workers' own processes.
    return plan.paired || one.kind == RoleKind::shard
           || other.kind == RoleKind::shard || workers_meet(plan, in_lock_step);
  };
  std::set<std::pair<size_t, size_t>> out;
  for (const auto& [one, here] : roles_)
    for (const auto& [other, there] : roles_)
      if (here < there && talk(one, other))
        out.insert({here, there});
  return out;
}

} // namespace troupe

#include "tests/sim/cluster_hosts.hpp"

#include <algorithm>

namespace troupe::sim {
namespace {

/// What was sent between two hosts and not taken for so long ends connections.
constexpr uint64_t connections_end = 3'000'000;
/// Of a cut that the job cannot do without: members may be away for so long.
constexpr uint64_t longest_wait = 20'000'000;
constexpr uint64_t longest_cut = 30'000'000;
/// Before the first step it is no accident, and the run ends (FirstLinks).
constexpr uint64_t longest_first_wait = 3'000'000;
/// Longer than a run may take after its last fault.
constexpr uint64_t for_good[2] = {100'000'000, 150'000'000};

} // namespace

ClusterHosts::ClusterHosts(Cluster& cluster)
  : cluster_(cluster), runtime_(cluster.runtime_) {}

bool ClusterHosts::inject(Fault fault) {
  return fault == Fault::host_kill  ? kill()
         : fault == Fault::host_cut ? cut()
                                    : slow();
}

/// The coordinator is on host 0. Replicas of a chain are neighbours.
uint32_t ClusterHosts::host_of(RoleId role) const {
  return (role.index + (role.kind == RoleKind::worker ? 1 : 0))
         % std::max(1u, cluster_.scenario_.hosts);
}

std::vector<uint32_t> ClusterHosts::processes_on(uint32_t host) const {
  std::vector<uint32_t> out;
  for (const auto& [role, member] : cluster_.members_)
    if (host_of(role) == host && runtime_.alive(member.process))
      out.push_back(member.process);
  if (host == 0)
    out.push_back(cluster_.coordinator_process_);
  return out;
}

/// Tells whether the job can go on without the roles of a host.
bool ClusterHosts::can_spare(uint32_t host) const {
  bool works = false;
  for (const auto& [role, member] : cluster_.members_)
    works = works || (role.kind == RoleKind::worker && host_of(role) != host);
  return works
         && std::ranges::all_of(cluster_.chains_, [&](const SliceChain& chain) {
              return chain.replicas.empty()
                     || std::ranges::any_of(
                       chain.replicas, [&](uint32_t shard) {
                         return host_of({RoleKind::shard, shard}) != host;
                       });
            });
}

ControlLineOptions ClusterHosts::line(uint32_t process) const {
  ControlLineOptions options;
  auto& runtime = runtime_;
  options.tell = [&runtime](const std::string& line) { runtime.note(line); };
  options.hang_up = [&runtime, &cluster = cluster_, process] {
    runtime.cut_control(process, cluster.coordinator_process_);
  };
  options.probe = [&runtime, process](const std::vector<LinkedRole>& others,
                                      std::function<void(bool)> reached) {
    const bool all = std::ranges::all_of(others, [&](const LinkedRole& other) {
      const auto peer = static_cast<uint32_t>(std::stoul(other.links));
      return runtime.alive(peer) && !runtime.is_blocked(process, peer)
             && !runtime.is_blocked(peer, process);
    });
    runtime.after(2 * runtime.pace.latency[1],
                  [reached = std::move(reached), all] { reached(all); });
  };
  return options;
}

/// A process that begins meanwhile is cut off as its host is.
void ClusterHosts::block_newcomer() {
  std::erase_if(cluster_.cuts_,
                [&](const HostCut& cut) { return cut.until < runtime_.now(); });
  for (const auto& cut : cluster_.cuts_)
    for (auto a : processes_on(cut.from))
      for (auto b : processes_on(cut.to))
        runtime_.block(a, b, cut.until);
}

bool ClusterHosts::cut() {
  auto& draw = runtime_.random();
  const auto a = static_cast<uint32_t>(draw.below(cluster_.scenario_.hosts));
  const auto b =
    static_cast<uint32_t>((a + 1 + draw.below(cluster_.scenario_.hosts - 1))
                          % cluster_.scenario_.hosts);
  if (cluster_.blocked_until_ > runtime_.now() || cluster_.activated_ == 0)
    return false;
  const bool with_coordinator = a == 0 || b == 0;
  // A replica that is to take its state anew is none yet.
  const bool spared = !cluster_.fragile()
                      && (with_coordinator ? can_spare(a == 0 ? b : a)
                                           : can_spare(a) || can_spare(b));
  auto time = spared && draw.chance(25)
                ? draw.between(for_good[0], for_good[1])
                : draw.between(50'000, spared ? longest_cut : longest_wait);
  if (cluster_.step_ < 2)
    time = std::min(time, longest_first_wait);
  const auto until = runtime_.now() + time;
  cluster_.blocked_until_ = until;
  cluster_.cuts_.push_back({a, b, until});
  if (draw.chance(60))
    cluster_.cuts_.push_back({b, a, until});
  block_newcomer();
  runtime_.note("host " + std::to_string(a) + " is cut off from host "
                + std::to_string(b) + " for " + std::to_string(time / 1'000)
                + " ms");
  if (time > connections_end)
    runtime_.after(connections_end, [&cluster = cluster_, a, b] {
      const ClusterHosts hosts{cluster};
      for (auto p : hosts.processes_on(a))
        for (auto q : hosts.processes_on(b)) {
          cluster.runtime_.cut_control(p, q);
          cluster.runtime_.cut_links(p, q);
          cluster.byte_links_.cut_between(p, q);
        }
    });
  return true;
}

/// All of its roles at once; their memory where another host has the same.
bool ClusterHosts::kill() {
  const auto host = static_cast<uint32_t>(
    runtime_.random().between(1, cluster_.scenario_.hosts - 1));
  if (cluster_.fragile())
    return false;
  std::vector<std::pair<RoleId, bool>> there;
  for (const auto& [role, member] : cluster_.members_)
    if (host_of(role) == host && runtime_.alive(member.process)) {
      if (role.kind == RoleKind::worker && cluster_.guarded(member.process))
        return false;
      there.emplace_back(role, role.kind == RoleKind::shard
                                 && cluster_.may_lose_memory(role));
    }
  for (const auto& [role, with_memory] : there)
    cluster_.kill(role, with_memory);
  return !there.empty();
}

bool ClusterHosts::slow() {
  auto& draw = runtime_.random();
  const auto host = static_cast<uint32_t>(draw.below(cluster_.scenario_.hosts));
  const auto extra = draw.between(1'000, 25'000);
  const auto until = runtime_.now() + draw.between(5'000, 200'000);
  for (uint32_t other = 0; other < cluster_.scenario_.hosts; ++other)
    for (auto p : processes_on(host))
      for (auto q : processes_on(other))
        if (other != host) {
          runtime_.network.slow_ways[{p, q}] = {extra, until};
          runtime_.network.slow_ways[{q, p}] = {extra, until};
        }
  return true;
}

} // namespace troupe::sim

#include "strategies/dead_links.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// More members than that with dead links are left out one by one, those with
/// the most first.
constexpr size_t max_searched = 16;
constexpr uint32_t max_doublings = 20;

/// Workers go before shards, whose slices would have to be copied; of equals
/// the one with the highest number.
bool goes_first(RoleId one, RoleId other) {
  return one.kind != other.kind ? one.kind < other.kind
                                : one.index > other.index;
}

using Links = std::vector<std::pair<RoleId, RoleId>>;

/// Whether two of them have no end in common.
bool are_apart(const Links& links) {
  for (const auto& one : links)
    for (const auto& other : links)
      if (one.first != other.first && one.first != other.second
          && one.second != other.first && one.second != other.second)
        return true;
  return false;
}

bool covers(const std::vector<RoleId>& out, const Links& links) {
  return std::ranges::all_of(links, [&](const auto& link) {
    return std::ranges::find(out, link.first) != out.end()
           || std::ranges::find(out, link.second) != out.end();
  });
}

bool spares(const std::vector<RoleId>& out, std::set<RoleId> present,
            const DeadLinks::Viable& viable) {
  for (auto role : out)
    present.erase(role);
  return viable(present);
}

/// Tries all sets of `size` of the roles, those that go first before others.
bool search(const std::vector<RoleId>& roles, size_t size, size_t from,
            std::vector<RoleId>& out, const std::function<bool()>& fits) {
  if (size == 0)
    return fits();
  for (size_t i = from; i + size <= roles.size(); ++i) {
    out.push_back(roles[i]);
    if (search(roles, size - 1, i + 1, out, fits))
      return true;
    out.pop_back();
  }
  return false;
}

/// Of too many to try all: the one with the most dead links, again and again.
std::vector<RoleId> greedy(const std::vector<RoleId>& roles, Links links) {
  std::vector<RoleId> out;
  while (!links.empty()) {
    const auto count = [&](RoleId role) {
      return std::ranges::count_if(links, [&](const auto& link) {
        return link.first == role || link.second == role;
      });
    };
    const auto worst = *std::ranges::max_element(roles, {}, count);
    out.push_back(worst);
    std::erase_if(links, [&](const auto& link) {
      return link.first == worst || link.second == worst;
    });
  }
  return out;
}

std::vector<RoleId> fewest(const Links& links, const std::set<RoleId>& present,
                           const DeadLinks::Viable& viable) {
  std::vector<RoleId> roles;
  for (const auto& [one, other] : links)
    for (auto role : {one, other})
      if (std::ranges::find(roles, role) == roles.end())
        roles.push_back(role);
  std::ranges::sort(roles, goes_first);
  std::vector<RoleId> out;
  if (roles.size() > max_searched) {
    out = greedy(roles, links);
    return spares(out, present, viable) ? out : std::vector<RoleId>{};
  }
  for (size_t size = 1; size < roles.size(); ++size)
    if (search(roles, size, 0, out, [&] {
          return covers(out, links) && spares(out, present, viable);
        }))
      return out;
  return {};
}

} // namespace

void DeadLinks::failed(RoleId one, RoleId other, uint64_t epoch,
                       uint64_t now_ms) {
  strategies::require(one != other, "a link has two ends");
  auto& known = links_[std::minmax(one, other)];
  if (known.dead || epoch <= known.epoch)
    return; // both ends say so
  if (known.deaths > 0 && known.failures == 0
      && now_ms - known.back_ms >= options_.forget_ms)
    known.deaths = 0;
  known.epoch = epoch;
  ++known.failures;
}

void DeadLinks::committed() {
  for (auto i = links_.begin(); i != links_.end();) {
    auto& known = i->second;
    if (!known.dead)
      known.failures = 0;
    // What is not remembered for its delay is not remembered.
    i = !known.dead && known.deaths == 0 ? links_.erase(i) : std::next(i);
  }
}

void DeadLinks::lost(RoleId role) {
  for (auto& [link, known] : links_)
    if (!known.dead && (link.first == role || link.second == role))
      known.failures = 0;
}

std::vector<DeadLinks::Link> DeadLinks::dead(const std::set<RoleId>& present,
                                             const CableOf& cable_of) const {
  std::set<Link> out;
  std::map<Cable, Links> suspects;
  std::set<Cable> with_dead;
  for (const auto& [link, known] : links_) {
    if (known.dead || known.failures == 0 || !present.contains(link.first)
        || !present.contains(link.second))
      continue;
    const bool is_dead = known.failures >= options_.failures;
    if (is_dead)
      out.insert(link);
    if (const auto cable = cable_of(link.first, link.second)) {
      suspects[*cable].push_back(link);
      if (is_dead)
        with_dead.insert(*cable);
    }
  }
  std::erase_if(with_dead,
                [&](const Cable& x) { return !are_apart(suspects.at(x)); });
  if (!with_dead.empty())
    for (auto one : present)
      for (auto other : present)
        if (const auto cable = cable_of(one, other);
            one < other && cable && with_dead.contains(*cable))
          out.emplace(one, other);
  return {out.begin(), out.end()};
}

std::vector<RoleId> DeadLinks::leave_out(const std::set<RoleId>& present,
                                         const Viable& viable, uint64_t now_ms,
                                         const CableOf& cable_of) {
  const auto links = dead(present, cable_of);
  if (links.empty())
    return {};
  auto out = fewest(links, present, viable);
  for (const auto& link : links)
    for (auto role : out)
      if (link.first == role || link.second == role) {
        auto& known = links_[link];
        known.dead = true;
        known.out = role;
        const auto again = std::min(known.deaths++, max_doublings);
        const auto delay = again == 0
                             ? 0
                             : std::min(options_.first_ms << (again - 1),
                                        options_.max_ms);
        known.not_before_ms = now_ms + delay;
        break;
      }
  return out;
}

bool DeadLinks::is_out(RoleId role) const {
  return std::ranges::any_of(links_, [&](const auto& link) {
    return link.second.dead && link.second.out == role;
  });
}

std::set<RoleId> DeadLinks::to_probe(RoleId role,
                                     const std::set<RoleId>& present) const {
  std::set<RoleId> out;
  for (const auto& [link, known] : links_)
    if (known.dead && known.out == role) {
      const auto other = link.first == role ? link.second : link.first;
      if (present.contains(other))
        out.insert(other);
    }
  return out;
}

uint64_t DeadLinks::delay_ms(RoleId role, uint64_t now_ms) const {
  uint64_t until = now_ms;
  for (const auto& [link, known] : links_)
    if (known.dead && known.out == role)
      until = std::max(until, known.not_before_ms);
  return until - now_ms;
}

void DeadLinks::readmitted(RoleId role, uint64_t now_ms) {
  for (auto& [link, known] : links_)
    if (known.dead && known.out == role) {
      known.dead = false;
      known.failures = 0;
      known.back_ms = now_ms;
    }
}

} // namespace troupe

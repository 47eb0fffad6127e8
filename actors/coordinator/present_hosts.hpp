#pragma once

#include "actors/links/link_endpoint.hpp"
#include "actors/role/present_role.hpp"
#include "strategies/dead_links.hpp"
#include "strategies/role_id.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace troupe {

/// The mark of the host where links are met; empty: they do not tell.
inline std::string host_mark_of(const std::string& links) {
  const auto at = parse_link_endpoint(links);
  return at ? at->host_mark : std::string{};
}

/// Which roles are on which host, by its mark, as far as their links tell.
inline std::map<std::string, std::set<RoleId>>
hosts_of(const std::map<RoleId, PresentRole>& present) {
  std::map<std::string, std::set<RoleId>> out;
  for (const auto& [role, known] : present)
    if (!known.host_mark.empty())
      out[known.host_mark].insert(role);
  return out;
}

/// Whether a role that is present is on another host than one of the others.
inline bool is_apart(const std::map<RoleId, PresentRole>& present,
                     RoleId role) {
  const auto& own = present.at(role).host_mark;
  return !own.empty() && std::ranges::any_of(present, [&](const auto& other) {
    const auto& mark = other.second.host_mark;
    return !mark.empty() && mark != own;
  });
}

/// The hosts of two that are present and need a link, by their marks. `served`:
/// workers need none to each other. nullopt: they are on one host, or their
/// links do not tell, or they need none.
inline std::optional<DeadLinks::Cable>
cable_between(const std::map<RoleId, PresentRole>& present, RoleId one,
              RoleId other, bool served) {
  const auto& mark = present.at(one).host_mark;
  const auto& of_other = present.at(other).host_mark;
  if (mark.empty() || of_other.empty() || mark == of_other
      || (served && !keeps_slices(one.kind) && !keeps_slices(other.kind)))
    return std::nullopt;
  return std::minmax(mark, of_other);
}

} // namespace troupe

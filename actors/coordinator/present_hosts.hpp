#pragma once

#include "actors/links/link_endpoint.hpp"
#include "actors/role/present_role.hpp"
#include "strategies/membership.hpp"

#include <map>
#include <set>
#include <string>

namespace troupe {

/// Which roles are on which host, by its mark, as far as their links tell.
inline std::map<std::string, std::set<RoleId>>
hosts_of(const std::map<RoleId, PresentRole>& present) {
  std::map<std::string, std::set<RoleId>> out;
  for (const auto& [role, known] : present)
    if (const auto at = parse_link_endpoint(known.links))
      out[at->host_mark].insert(role);
  return out;
}

} // namespace troupe

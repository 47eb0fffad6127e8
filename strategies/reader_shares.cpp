#include "strategies/reader_shares.hpp"

#include <algorithm>

namespace troupe {

std::vector<RoleId> readers_of(RoleId worker, const std::set<RoleId>& present) {
  std::vector<RoleId> readers;
  size_t workers = present.contains(worker) ? 0 : 1;
  size_t place = 0;
  for (auto role : present) {
    if (role.kind == RoleKind::reader)
      readers.push_back(role);
    if (role.kind != RoleKind::worker)
      continue;
    ++workers;
    place += role < worker ? 1 : 0;
  }
  if (readers.size() < workers) {
    if (!readers.empty())
      readers = {readers[place % readers.size()]};
    return readers;
  }
  std::vector<RoleId> own;
  for (auto i = place; i < readers.size(); i += workers)
    own.push_back(readers[i]);
  return own;
}

std::vector<RoleId> other_readers(const std::vector<RoleId>& own,
                                  const std::set<RoleId>& present) {
  std::vector<RoleId> before;
  std::vector<RoleId> behind;
  for (auto role : present)
    if (role.kind == RoleKind::reader
        && std::ranges::find(own, role) == own.end())
      (own.empty() || own.back() < role ? behind : before).push_back(role);
  behind.insert(behind.end(), before.begin(), before.end());
  return behind;
}

} // namespace troupe

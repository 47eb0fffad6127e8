#include "strategies/role_id.hpp"

namespace troupe {

std::string to_string(RoleId role) {
  auto numbered = [&](const char* kind) {
    return kind + (':' + std::to_string(role.index));
  };
  switch (role.kind) {
    case RoleKind::coordinator:
      return "coordinator";
    case RoleKind::worker:
      return numbered("worker");
    case RoleKind::shard:
      return numbered("ps");
    case RoleKind::evaluator:
      return numbered("evaluator");
    case RoleKind::stage:
      return numbered("stage");
    case RoleKind::tensor:
      return numbered("tensor");
    case RoleKind::reader:
      return numbered("reader");
  }
  return numbered("role");
}

std::string to_string(const std::vector<RoleId>& roles) {
  std::string out;
  for (size_t i = 0; i < roles.size(); ++i) {
    const auto first = i;
    while (i + 1 < roles.size() && roles[i + 1].kind == roles[first].kind
           && roles[i + 1].index == roles[i].index + 1)
      ++i;
    const auto* between = i == first ? "" : i == first + 1 ? ", " : " to ";
    out += (out.empty() ? "" : ", ") + to_string(roles[first]) + between
           + (i == first ? "" : to_string(roles[i]));
  }
  return out;
}

} // namespace troupe

#include "apps/settings/checks.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

// A file of its own: who reads a role's name alone makes no job.

namespace troupe {

RoleId parse_process(const std::string& text, bool& paired) {
  const std::string kind = "sharded";
  paired = text == kind || text.starts_with(kind + ':');
  if (!paired)
    return parse_role(text);
  try {
    return parse_role("worker" + text.substr(kind.size()));
  } catch (const UsageError&) {
    throw UsageError("role " + text + ": expected its number, for example "
                     + kind + ":0");
  }
}

RoleId parse_role(const std::string& text) {
  auto colon = text.find(':');
  auto kind = text.substr(0, colon);
  RoleId role;
  if (kind == "coordinator")
    role.kind = RoleKind::coordinator;
  else if (kind == "worker")
    role.kind = RoleKind::worker;
  else if (kind == "ps")
    role.kind = RoleKind::shard;
  else if (kind == "stage")
    role.kind = RoleKind::stage;
  else if (kind == "tensor")
    role.kind = RoleKind::tensor;
  else if (kind == "reader")
    role.kind = RoleKind::reader;
  else if (kind == "evaluator")
    role.kind = RoleKind::evaluator;
  else
    throw UsageError("role " + text
                     + ": unknown; use worker:N, ps:N, stage:N, tensor:N, "
                       "sharded:N, reader:N, evaluator:N or coordinator");
  if (role.kind == RoleKind::coordinator && colon == std::string::npos)
    return role;
  try {
    if (colon == std::string::npos)
      throw UsageError("expected its number, for example " + kind + ":0");
    auto highest = role.kind == RoleKind::coordinator ? 0 : 4095;
    role.index = static_cast<uint32_t>(
      parse_whole(text.substr(colon + 1), 0, static_cast<uint64_t>(highest)));
  } catch (const UsageError& mistake) {
    throw UsageError("role " + text + ": " + mistake.what());
  }
  return role;
}

} // namespace troupe

#include "actors/page/job_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace troupe {
namespace {

/// Four digits are enough for a picture.
nlohmann::ordered_json rounded(double value) {
  if (!std::isfinite(value))
    return nullptr;
  if (value == 0 || std::abs(value) >= 1000)
    return std::round(value);
  const auto scale = std::pow(10.0,
                              3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

nlohmann::ordered_json role_json(const RoleView& role,
                                 const PageMember* member) {
  nlohmann::ordered_json out{{"role", role.role}};
  if (member != nullptr) {
    out["host"] = member->host;
    out["present"] = member->present;
    out["silent_ms"] = member->silent_ms;
    out["missed_signs"] = member->missed;
  }
  out["left_out"] = role.left_out;
  out["awaited_by"] = role.awaited_by;
  out["tags"] = role.tags;
  const std::pair<const char*, double> numbers[] = {
    {"cpu", role.cpu},
    {"memory", role.memory},
    {"compute_ms", role.compute_ms},
    {"data_ms", role.data_ms},
    {"decode_ms", role.decode_ms},
    {"pull_ms", role.pull_ms},
    {"push_ms", role.push_ms},
    {"reduce_ms", role.reduce_ms},
    {"busy", role.busy},
    {"sent", role.sent},
    {"received", role.received},
    {"queued", role.queued},
    {"restarts", role.restarts}};
  for (const auto& [name, value] : numbers)
    if (std::isfinite(value)) // most roles have few of them
      out[name] = rounded(value);
  return out;
}

} // namespace

nlohmann::ordered_json job_json(const JobView& job,
                                const std::vector<PageMember>& members) {
  std::map<std::string, const PageMember*> by_role;
  for (const auto& member : members)
    by_role[member.role] = &member;
  auto roles = nlohmann::ordered_json::array();
  size_t not_shown = 0;
  const auto show = [&](const RoleView& role, const PageMember* member) {
    if (roles.size() < max_shown_roles)
      roles.push_back(role_json(role, member));
    else
      ++not_shown;
  };
  for (const auto& role : job.roles) {
    const auto found = by_role.find(role.role);
    show(role, found == by_role.end() ? nullptr : found->second);
    by_role.erase(role.role);
  }
  for (const auto& [name, member] : by_role) {
    RoleView role;
    role.role = name;
    show(role, member);
  }
  return {{"step", rounded(job.step)},
          {"steps", rounded(job.steps)},
          {"eta_s", rounded(job.eta_s())},
          {"loss", rounded(job.loss)},
          {"steps_per_second", rounded(job.steps_per_second)},
          {"samples_per_second", rounded(job.samples_per_second)},
          {"data_epoch", rounded(job.data_epoch)},
          {"membership_epoch", rounded(job.membership_epoch)},
          {"restarts", rounded(job.restarts)},
          {"expected", rounded(job.expected)},
          {"present", rounded(job.present)},
          {"left_out", rounded(job.left_out)},
          {"since_commit_s", rounded(job.since_commit_s)},
          {"late", job.late},
          {"roles", std::move(roles)},
          {"roles_not_shown", not_shown}};
}

} // namespace troupe

#include "apps/process/scrape.hpp"
#include "apps/settings/commands.hpp"
#include "monitoring/names.hpp"
#include "monitoring/supervision_names.hpp"

#include <cstdio>
#include <map>
#include <set>

namespace troupe {
namespace {

using Values = std::vector<ScrapedValue>;

double value_of(const Values& values, const MetricDescription& metric) {
  for (const auto& value : values)
    if (value.name == metric.name)
      return value.value;
  return 0;
}

/// "worker:1 by shm, worker:2 by tcp", by role.
std::map<std::string, std::string> links_of(const Values& values) {
  std::map<std::string, std::set<std::string>> sorted;
  for (const auto& value : values)
    if (value.name == metrics::link_carrier.name && value.value == 1)
      sorted[label_of(value, "role")].insert(label_of(value, "peer") + " by "
                                             + label_of(value, "carrier"));
  std::map<std::string, std::string> links;
  for (const auto& [role, peers] : sorted)
    for (const auto& peer : peers)
      links[role] += (links[role].empty() ? "" : ", ") + peer;
  return links;
}

/// Supervisors, each with whom it starts again and how often it has.
void show_supervision(const Values& values) {
  std::map<std::string, std::map<std::string, double>> trees;
  for (const auto& value : values)
    if (value.name == metrics::supervised.name)
      trees[label_of(value, "supervisor")][label_of(value, "member")] =
        value.value;
  std::printf("supervision\n");
  for (const auto& [supervisor, members] : trees) {
    if (supervisor.empty())
      std::printf("  nobody: a role that ends is not started again\n");
    else
      std::printf(
        "  %s: %.0f of %.0f restarts left, more end the run; a committed "
        "step gives all back\n",
        supervisor.c_str(), value_of(values, metrics::restarts_left),
        value_of(values, metrics::restarts_allowed));
    for (const auto& [member, restarts] : members)
      std::printf("    %-12s restarted %.0f times\n", member.c_str(), restarts);
  }
}

/// How many members there are of how many, and who is left out.
void show_members(const Values& values) {
  std::map<std::string, double> counts;
  std::string out;
  for (const auto& value : values)
    if (value.name == metrics::members.name)
      counts[label_of(value, "state")] = value.value;
    else if (value.name == metrics::left_out.name)
      out += "  " + label_of(value, "member")
             + " is left out: " + label_of(value, "reason") + '\n';
  std::printf("members: %.0f expected, %.0f present, %.0f left out; silence "
              "of %.1f s counts as loss\n%s",
              counts["expected"], counts["present"], counts["left_out"],
              value_of(values, metrics::loss_seconds), out.c_str());
}

/// Who waits for whom, and who holds up a step that is late.
void show_waits(const Values& values, bool committed) {
  for (const auto& value : values)
    if (value.name == metrics::step_age_seconds.name) {
      const auto reason = label_of(value, "reason");
      std::printf(committed ? "last commit %.1f s ago%s%s\n"
                            : "no step is committed yet, %.1f s%s%s\n",
                  value.value, reason.empty() ? "" : ": the step is late, ",
                  reason.c_str());
    }
  for (const auto& value : values)
    if (value.name == metrics::waits_for.name)
      std::printf("  %s waits for %s: %s\n", label_of(value, "waiter").c_str(),
                  label_of(value, "awaited").c_str(),
                  label_of(value, "what").c_str());
}

} // namespace

int run_status(const Settings& settings) {
  const auto values = scrape(settings.metrics_address,
                             scrape_credentials(settings));
  const auto step = value_of(values, metrics::steps_committed_total);
  char loss[32] = "-"; // of no step yet
  if (step > 0)
    std::snprintf(loss, sizeof loss, "%.4f",
                  value_of(values, metrics::training_loss));
  std::printf("step %.0f, data epoch %.0f, loss %s, membership epoch %.0f, "
              "%.0f restarts\n",
              step, value_of(values, metrics::data_epoch), loss,
              value_of(values, metrics::membership_epoch),
              value_of(values, metrics::restarts_total));
  show_members(values);
  show_supervision(values);
  show_waits(values, step > 0);
  std::set<std::string> roles;
  for (const auto& value : values)
    if (auto role = label_of(value, "role");
        !role.empty() && role != "exporter")
      roles.insert(role);
  const auto links = links_of(values);
  std::printf("%-14s %s\n", "role", "links");
  for (const auto& role : roles) {
    const auto found = links.find(role);
    std::printf("%-14s %s\n", role.c_str(),
                found == links.end() ? "-" : found->second.c_str());
  }
  return 0;
}

} // namespace troupe

#include "apps/commands.hpp"
#include "apps/scrape.hpp"
#include "monitoring/names.hpp"

#include <cstdio>
#include <map>
#include <set>

namespace troupe {
namespace {

using Values = std::vector<ScrapedValue>;

std::string label(const ScrapedValue& value, const std::string& name) {
  const auto found = value.labels.find(name);
  return found == value.labels.end() ? std::string{} : found->second;
}

double value_of(const Values& values, const MetricDescription& metric) {
  for (const auto& value : values)
    if (value.name == metric.name)
      return value.value;
  return 0;
}

/// "worker:1 by shm, worker:2 by tcp", by role.
std::map<std::string, std::string> links_of(const Values& values) {
  std::map<std::string, std::string> links;
  for (const auto& value : values) {
    if (value.name != metrics::link_carrier.name || value.value != 1)
      continue;
    auto& text = links[label(value, "role")];
    text += (text.empty() ? "" : ", ") + label(value, "peer") + " by "
            + label(value, "carrier");
  }
  return links;
}

} // namespace

int run_status(const Settings& settings) {
  const auto values = scrape(settings.metrics_address);
  std::printf("epoch %.0f, step %.0f, loss %.4f, %.0f restarts\n",
              value_of(values, metrics::membership_epoch),
              value_of(values, metrics::steps_committed_total),
              value_of(values, metrics::training_loss),
              value_of(values, metrics::restarts_total));
  std::set<std::string> roles;
  for (const auto& value : values)
    if (auto role = label(value, "role"); !role.empty() && role != "exporter")
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

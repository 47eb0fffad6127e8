#include "apps/settings/tf_config.hpp"

#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <set>

namespace troupe {

namespace {

using Json = nlohmann::json;

constexpr size_t max_members = 4096;

[[noreturn]] void refuse_cluster(const std::string& what) {
  throw UsageError("TF_CONFIG: " + what);
}

std::vector<std::string> addresses_of(const std::string& kind,
                                      const Json& list) {
  auto where = "cluster." + kind;
  if (!list.is_array())
    refuse_cluster(where + " is not a list: write [\"host:port\", …]");
  if (list.size() > max_members)
    refuse_cluster(where + " names more than " + std::to_string(max_members)
                   + " members");
  std::vector<std::string> out;
  for (const auto& item : list) {
    auto name = where + "[" + std::to_string(out.size()) + "]";
    if (!item.is_string())
      refuse_cluster(name + " is not a string: write \"host:port\"");
    auto address = item.get<std::string>();
    try {
      parse_address(address);
    } catch (const UsageError& mistake) {
      refuse_cluster(name + " is \"" + address + "\": " + mistake.what());
    }
    out.push_back(std::move(address));
  }
  return out;
}

void read_cluster(const Json& cluster, TfConfig& config) {
  if (!cluster.is_object())
    refuse_cluster(
      "cluster is not an object: write {\"worker\": [\"host:port\"]}");
  for (const auto& [kind, list] : cluster.items()) {
    if (kind == "chief" || kind == "master") {
      auto addresses = addresses_of(kind, list);
      if (addresses.size() > 1)
        refuse_cluster("cluster." + kind + " names more than one coordinator");
      if (!config.chief.empty())
        refuse_cluster("cluster has both chief and master: keep one");
      if (!addresses.empty())
        config.chief = addresses.front();
    } else if (kind == "worker") {
      config.workers = addresses_of(kind, list);
    } else if (kind == "ps") {
      config.shards = addresses_of(kind, list);
    } else if (kind == "evaluator") {
      config.evaluators = addresses_of(kind, list);
    } else {
      refuse_cluster("unknown key cluster." + kind
                     + ": use chief, worker, ps or evaluator");
    }
  }
  std::set<std::string> seen;
  for (const auto* list : {&config.workers, &config.shards, &config.evaluators})
    for (const auto& address : *list)
      if (!seen.insert(address).second || address == config.chief)
        refuse_cluster("cluster names " + address + " twice");
}

/// Number of members of the task's kind; the chief is one.
size_t members_of(const TfConfig& config, RoleKind kind) {
  switch (kind) {
    case RoleKind::worker:
      return config.workers.size();
    case RoleKind::shard:
      return config.shards.size();
    case RoleKind::evaluator:
      return config.evaluators.size();
    case RoleKind::stage: // the field has no name for one
    case RoleKind::tensor:
    case RoleKind::reader:
    case RoleKind::coordinator:
      break;
  }
  return config.chief.empty() ? 0 : 1;
}

RoleKind kind_of(const std::string& type) {
  if (type == "chief" || type == "master")
    return RoleKind::coordinator;
  if (type == "worker")
    return RoleKind::worker;
  if (type == "ps")
    return RoleKind::shard;
  if (type == "evaluator")
    return RoleKind::evaluator;
  refuse_cluster("task.type is \"" + type
                 + "\": use chief, worker, ps or evaluator");
}

void read_task(const Json& task, TfConfig& config) {
  if (!task.is_object())
    refuse_cluster(
      "task is not an object: write {\"type\": \"worker\", \"index\": 0}");
  for (const auto& item : task.items())
    if (item.key() != "type" && item.key() != "index")
      refuse_cluster("unknown key task." + item.key() + ": use type and index");
  if (!task.contains("type") || !task["type"].is_string())
    refuse_cluster(
      "task.type is missing or not a string: use chief, worker, ps or "
      "evaluator");
  if (!task.contains("index") || !task["index"].is_number_unsigned()
      || task["index"].get<uint64_t>() >= max_members)
    refuse_cluster("task.index is missing or not a whole number from 0 to "
                   + std::to_string(max_members - 1));
  RoleId role{kind_of(task["type"].get<std::string>()),
              task["index"].get<uint32_t>()};
  auto members = members_of(config, role.kind);
  // The field leaves the evaluator out of the cluster as a rule.
  if (role.kind == RoleKind::evaluator && members == 0)
    members = max_members;
  if (role.index >= members)
    refuse_cluster("task is " + to_string(role) + " but cluster names "
                   + std::to_string(members) + " of that type");
  config.task = role;
}

} // namespace

std::string TfConfig::address_of(RoleId role) const {
  auto at = [&](const std::vector<std::string>& list) {
    return role.index < list.size() ? list[role.index] : std::string{};
  };
  switch (role.kind) {
    case RoleKind::worker:
      return at(workers);
    case RoleKind::shard:
      return at(shards);
    case RoleKind::evaluator:
      return at(evaluators);
    case RoleKind::stage:
    case RoleKind::tensor:
    case RoleKind::reader:
    case RoleKind::coordinator:
      break;
  }
  return chief;
}

std::string TfConfig::coordinator() const {
  const bool alone = workers.size() <= 1 && shards.empty()
                     && !(task && task->kind == RoleKind::evaluator);
  return !chief.empty() || alone || workers.empty() ? chief : workers.front();
}

TfConfig parse_tf_config(const std::string& text) {
  auto json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    refuse_cluster("not valid JSON: write {\"cluster\": {…}, \"task\": {…}}");
  if (!json.is_object())
    refuse_cluster(
      "not a JSON object: write {\"cluster\": {…}, \"task\": {…}}");
  for (const auto& item : json.items())
    if (item.key() != "cluster" && item.key() != "task"
        && item.key() != "environment")
      refuse_cluster("unknown key " + item.key() + ": use cluster and task");
  TfConfig config;
  if (!json.contains("cluster"))
    refuse_cluster(
      "cluster is missing: write {\"cluster\": {…}, \"task\": {…}}");
  read_cluster(json["cluster"], config);
  if (json.contains("task"))
    read_task(json["task"], config);
  return config;
}

} // namespace troupe

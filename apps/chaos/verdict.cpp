#include "apps/chaos/verdict.hpp"

#include "apps/chaos/plan.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

/// Milliseconds from a loss to the next commit, by kind of recovery.
Json next_commits(const Json& recoveries) {
  std::map<std::string, std::vector<double>> by_kind;
  for (const auto& x : recoveries)
    by_kind[x.at("kind")].push_back(x.at("resumed_ms").get<double>()
                                    - x.at("detected_ms").get<double>());
  Json out = Json::object();
  for (auto& [kind, ms] : by_kind) {
    std::sort(ms.begin(), ms.end());
    out[kind] = {{"count", ms.size()},
                 {"median", ms[ms.size() / 2]},
                 {"worst", ms.back()}};
  }
  return out;
}

Json by_phase(const Json& recoveries) {
  std::map<std::string, uint64_t> count;
  for (const auto& x : recoveries)
    ++count[x.value("phase", "none asked for")];
  return count;
}

/// {"kill": {"count": 3, "by_phase": {"push": 2, "pull": 1}}, …}
Json by_kind(const std::vector<ChaosFault>& faults) {
  std::map<std::string, std::map<std::string, uint64_t>> count;
  for (const auto& fault : faults)
    ++count[to_string(fault.kind)][to_string(fault.phase)];
  Json out = Json::object();
  for (const auto& [kind, phases] : count) {
    uint64_t sum = 0;
    for (const auto& [phase, times] : phases)
      sum += times;
    out[kind] = {{"count", sum}, {"by_phase", phases}};
  }
  return out;
}

Json json_of(const std::optional<RoleProcesses::Holdings>& held) {
  if (!held)
    return nullptr;
  return {{"processes", held->processes},
          {"descriptors", held->descriptors},
          {"sockets", held->sockets},
          {"memory_files", held->memory_files}};
}

using Failures = std::vector<std::string>;

void judge_losses(const ChaosEvidence& evidence, Failures& failures) {
  const auto& recoveries = evidence.summary.at("recoveries");
  uint64_t killed = 0;
  uint64_t may_be_lost = 0;
  bool coordinator_died = false;
  for (const auto& fault : evidence.faults) {
    if (fault.role.kind == RoleKind::reader)
      continue; // it is in no epoch: nothing has to recover
    const bool leads = fault.role.kind == RoleKind::coordinator;
    const uint64_t members = evidence.paired && !leads ? 2 : 1;
    if (loses_role(fault.kind)) {
      killed += members;
      coordinator_died = coordinator_died || leads;
    } else if (fault.kind == ChaosKind::stop && fault.amount > borne_pause_ms
               && !leads)
      may_be_lost += members;
  }
  if (evidence.faults.size() < evidence.asked)
    failures.push_back(std::to_string(evidence.faults.size()) + " of "
                       + std::to_string(evidence.asked)
                       + " faults took place: give the job more steps");
  else if (recoveries.size() < killed)
    failures.push_back(std::to_string(recoveries.size()) + " losses for "
                       + std::to_string(killed) + " deaths");
  // A coordinator that follows goes on without who is not back in a second.
  if (recoveries.size() > killed + may_be_lost && !coordinator_died
      && evidence.hosts == 0)
    failures.push_back(std::to_string(recoveries.size() - killed - may_be_lost)
                       + " roles were lost that no fault had struck");
  const auto starved = static_cast<uint64_t>(
    std::ranges::count(evidence.faults, ChaosKind::memory, &ChaosFault::kind));
  if (evidence.lacked_memory < starved)
    failures.push_back(std::to_string(evidence.lacked_memory) + " of "
                       + std::to_string(starved)
                       + " workers without memory were said to be that");
  for (const auto& x : recoveries)
    if (x.at("kind") == "unfinished") {
      failures.push_back("a recovery was not over at the end");
      break;
    }
  const auto recomputed =
    evidence.summary.at("leaves_recomputed").get<uint64_t>();
  if (evidence.leaves_of_the_lost && recomputed > *evidence.leaves_of_the_lost)
    failures.push_back(std::to_string(recomputed)
                       + " leaves were computed again, but the lost workers "
                         "had "
                       + std::to_string(*evidence.leaves_of_the_lost));
}

void judge_leaks(const ChaosEvidence& evidence, Failures& failures) {
  for (const auto& process : evidence.left)
    failures.push_back("the run is over, " + process + " is not");
  if (!evidence.before || !evidence.after)
    return;
  const auto compare = [&](uint64_t before, uint64_t after, const char* what) {
    if (after > before)
      failures.push_back("after the last fault the job held "
                         + std::to_string(after) + ' ' + what + ", and "
                         + std::to_string(before) + " would do");
  };
  compare(evidence.before->processes, evidence.after->processes, "processes");
  // Counted while others work: what leaks does so more than once in eight
  // faults.
  compare(evidence.before->descriptors + evidence.faults.size() / 8,
          evidence.after->descriptors, "descriptors");
  compare(evidence.before->sockets + evidence.link_ends,
          evidence.after->sockets, "sockets");
  compare(evidence.before->memory_files, evidence.after->memory_files,
          "memory files");
}

} // namespace

Json judge(const ChaosEvidence& evidence) {
  const auto& summary = evidence.summary;
  const auto& recoveries = summary.at("recoveries");
  Failures failures;
  judge_losses(evidence, failures);
  judge_leaks(evidence, failures);
  for (const auto& ending : evidence.endings)
    failures.insert(failures.end(), ending.failures.begin(),
                    ending.failures.end());
  failures.insert(failures.end(), evidence.of_hosts.begin(),
                  evidence.of_hosts.end());
  if (summary.at("steps_rolled_back") != 0)
    failures.push_back(summary.at("steps_rolled_back").dump()
                       + " steps were rolled back");
  Json verdict;
  if (!evidence.undisturbed.is_null())
    for (const char* digest : {"weights_sha256", "state_sha256"}) {
      verdict[digest] = summary.at(digest);
      verdict["undisturbed"][digest] = evidence.undisturbed.at(digest);
      if (summary.at(digest) != evidence.undisturbed.at(digest))
        failures.push_back(std::string{digest}
                           + " is not that of the undisturbed run");
    }
  if (evidence.counts) {
    verdict["count"] = {{"expected", evidence.expected_count},
                        {"least", evidence.min_count},
                        {"largest", evidence.largest_count}};
    if (evidence.min_count != evidence.expected_count
        || evidence.largest_count != evidence.expected_count)
      failures.push_back("an update was lost or applied twice");
  }
  verdict["faults"] = by_kind(evidence.faults);
  verdict["endings"] = Json::array();
  for (const auto& ending : evidence.endings)
    verdict["endings"].push_back({{"kind", to_string(ending.kind)},
                                  {"steps", ending.steps},
                                  {"refused", ending.refused}});
  verdict["deaths"] = recoveries.size();
  verdict["by_phase"] = by_phase(recoveries);
  verdict["next_commit_ms"] = next_commits(recoveries);
  for (const char* name : {"steps", "steps_rolled_back", "leaves_recomputed",
                           "duplicates_dropped"})
    verdict[name] = summary.at(name);
  verdict["leaves_of_the_lost"] = nullptr;
  if (evidence.leaves_of_the_lost)
    verdict["leaves_of_the_lost"] = *evidence.leaves_of_the_lost;
  verdict["held"] = {{"before", json_of(evidence.before)},
                     {"after", json_of(evidence.after)}};
  verdict["left"] = evidence.left;
  verdict["hosts"] = evidence.hosts;
  verdict["recoveries"] = recoveries;
  verdict["failures"] = failures;
  verdict["verdict"] = failures.empty() ? "passed" : "failed";
  return verdict;
}

} // namespace troupe

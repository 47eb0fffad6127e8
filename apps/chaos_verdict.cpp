#include "apps/chaos_verdict.hpp"

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

} // namespace

Json judge(const ChaosEvidence& evidence) {
  const auto& summary = evidence.summary;
  const auto& recoveries = summary.at("recoveries");
  std::vector<std::string> failures;
  if (recoveries.size() < evidence.asked)
    failures.push_back(std::to_string(recoveries.size()) + " of "
                       + std::to_string(evidence.asked)
                       + " deaths took place: give the job more steps");
  if (summary.at("steps_rolled_back") != 0)
    failures.push_back(summary.at("steps_rolled_back").dump()
                       + " steps were rolled back");
  for (const auto& x : recoveries)
    if (x.at("kind") == "unfinished") {
      failures.push_back("a recovery was not over at the end");
      break;
    }
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
                        {"least", evidence.least_count},
                        {"largest", evidence.largest_count}};
    if (evidence.least_count != evidence.expected_count
        || evidence.largest_count != evidence.expected_count)
      failures.push_back("an update was lost or applied twice");
  }
  verdict["deaths"] = recoveries.size();
  verdict["by_phase"] = by_phase(recoveries);
  verdict["next_commit_ms"] = next_commits(recoveries);
  for (const char* name : {"steps", "steps_rolled_back", "leaves_recomputed",
                           "duplicates_dropped"})
    verdict[name] = summary.at(name);
  verdict["recoveries"] = recoveries;
  verdict["failures"] = failures;
  verdict["verdict"] = failures.empty() ? "passed" : "failed";
  return verdict;
}

} // namespace troupe

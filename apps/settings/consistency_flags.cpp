#include "apps/settings/binding.hpp"

namespace troupe {

namespace {

using namespace binding;

constexpr uint64_t max_workers = 4096;

/// A bound is one on asynchronous workers; without the flag there is none.
Binding staleness() {
  return {[](Settings& s, const std::string& value) {
            s.job.staleness =
              static_cast<int64_t>(parse_whole(value, 0, max_steps));
            s.job.synchronisation = Synchronisation::async;
          },
          [](const Settings& s) {
            return s.job.staleness < 0 ? std::string{}
                                       : std::to_string(s.job.staleness);
          }};
}

Binding slow_worker() {
  return {[](Settings& s, const std::string& value) {
            const auto colon = value.find(':');
            if (colon == std::string::npos)
              throw UsageError("expected INDEX:FACTOR, for example 1:5");
            parse_whole(value.substr(0, colon), 0, max_workers);
            parse_whole(value.substr(colon + 1), 1, 1000);
            s.job.slow_worker = value;
          },
          [](const Settings& s) { return s.job.slow_worker; }};
}

Binding reject_stale() {
  return {[](Settings& s, const std::string& value) {
            s.job.reject_stale =
              static_cast<int64_t>(parse_whole(value, 0, max_steps));
          },
          [](const Settings& s) {
            return s.job.reject_stale < 0 ? std::string{}
                                          : std::to_string(s.job.reject_stale);
          }};
}

} // namespace

std::vector<Flag> consistency_flags() {
  using enum Synchronisation;
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value, FlagType type,
                       const char* fallback, const char* help,
                       Binding binding) {
    flags.push_back({name, value, type, on_jobs, "How a step is taken",
                     fallback, help, std::move(binding.set),
                     std::move(binding.get)});
  };
  add("sync", "", FlagType::toggle, "yes",
      "a step commits when every virtual rank has arrived",
      toggle(FIELD(job.synchronisation), sync));
  add("async", "", FlagType::toggle, "no",
      "shards apply each push on arrival (parameter_server)",
      toggle(FIELD(job.synchronisation), async));
  add("staleness", "N", FlagType::number, "no bound",
      "implies --async: a worker that is more than N leases ahead of the "
      "slowest waits; with --dense all_reduced, who reads rows of a step "
      "waits for the pushes of the steps before the last N",
      staleness());
  add("backup-workers", "K", FlagType::number, "0",
      "with --sync and --reduction fast: a step is made of what all but K "
      "workers have pushed; what comes late is dropped",
      whole(FIELD(job.backup_workers), 0, max_workers));
  add("slow-worker", "I:F", FlagType::text, "none",
      "for experiments: worker I takes F times as long to compute",
      slow_worker());
  add("reject-stale", "N", FlagType::number, "never",
      "with --async: a push computed on parameters that have had more than N "
      "updates since is dropped, and its part computed again",
      reject_stale());
  add("staleness-damping", "NAME", FlagType::text, "none",
      "with --async: divides the learning rate of a push by 1 + its "
      "staleness in updates (inverse), or by the root of that "
      "(inverse_sqrt)",
      choice(FIELD(job.staleness_damping),
             {"none", "inverse_sqrt", "inverse"}));
  add("prefetch", "NAME", FlagType::text, "auto",
      "with --async: a worker pulls for its next part while it computes one "
      "(on), or after it (off); auto: on with sparse tables",
      choice(FIELD(job.prefetch), {"auto", "on", "off"}));
  add("priority", "NAME", FlagType::text, "on",
      "of parameter_server: what the next forward pass needs first is sent "
      "first, and a synchronous one begins as it arrives (on); or all in the "
      "order in which it is made (off)",
      choice(FIELD(job.priority), {"on", "off"}));
  return flags;
}

} // namespace troupe

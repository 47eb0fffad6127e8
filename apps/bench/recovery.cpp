#include "apps/bench/recovery_trials.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace troupe {
namespace {

/// The value below which a share of them lies; `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(share * last))];
}

nlohmann::json row_of(const RecoveryKind& kind, std::vector<double> ms,
                      uint64_t leaves_again) {
  auto sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const auto median = quantile(sorted, 0.5);
  const auto worst = sorted.back();
  const bool met = median <= kind.median_ms && worst <= kind.worst_ms;
  std::printf("%-38s %6zu %8.0f %8.0f %8.0f %6.0f/%-6.0f %-3s %8llu\n",
              kind.what, ms.size(), median, quantile(sorted, 0.9), worst,
              kind.median_ms, kind.worst_ms, met ? "yes" : "no",
              static_cast<unsigned long long>(leaves_again));
  std::fflush(stdout);
  return {{"name", std::string{"recovery, "} + kind.name},
          {"members", 4},
          {"bytes", nullptr},
          {"ours_us", median * 1e3},
          {"spread",
           (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / median},
          {"peer", nullptr},
          {"peer_version", nullptr},
          {"peer_us", nullptr},
          {"ratio", nullptr},
          {"limit_share", kind.median_ms / median},
          {"p90_us", quantile(sorted, 0.9) * 1e3},
          {"worst_us", worst * 1e3},
          {"bar_median_us", kind.median_ms * 1e3},
          {"bar_worst_us", kind.worst_ms * 1e3},
          {"met", met},
          {"leaves_recomputed", leaves_again},
          {"trials_us", [&] {
             for (auto& x : ms)
               x *= 1e3;
             return ms;
           }()}};
}

} // namespace

int run_bench_recovery(const Settings& settings) {
  const auto& wanted = settings.recovery;
  std::printf(
    "4 workers, 2 shards in chains of 2, or 4 that all-reduce; synchronous "
    "steps of\nmlp:784-64-10. 4 stages, 2 pipelines of 2, or 4 tensor members: "
    "mlp:784-64-64-10.\nA random role at a random moment of a whole job. "
    "Milliseconds from the signal to\nthe first step committed without it, or "
    "with its successor, which the job's journal\ndates by the same clock of "
    "this machine. Steps rolled back: none; weights: those of\none device. "
    "Leaves: computed again. Seed %llu.\n",
    static_cast<unsigned long long>(wanted.seed));
  std::printf("%-38s %6s %8s %8s %8s %13s %-3s %8s\n", "", "trials", "median",
              "p90", "worst", "bar", "met", "leaves");
  nlohmann::json rows = nlohmann::json::array();
  Interrupt interrupt{false, "before the last trial"};
  for (const auto& kind : recovery_kinds()) {
    if (!wanted.kinds.empty()
        && std::ranges::find(wanted.kinds, kind.name) == wanted.kinds.end())
      continue;
    std::vector<double> ms;
    RecoveryTrials trials{kind, wanted.seed, interrupt};
    while (ms.size() < wanted.trials)
      ms.push_back(trials.strike());
    const auto leaves_again = trials.finish();
    rows.push_back(row_of(kind, std::move(ms), leaves_again));
    if (!settings.json.empty()) { // each: the next ones take minutes
      const auto text = rows.dump(2) + "\n";
      write_atomically(settings.json, {std::as_bytes(std::span{text})});
    }
  }
  return 0;
}

} // namespace troupe

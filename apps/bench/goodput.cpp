#include "apps/bench/recovery_trials.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <span>

namespace troupe {
namespace {

constexpr double bar = 0.95;

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (auto value : values)
    sum += value;
  return sum;
}

nlohmann::json row_of(const RecoveryKind& kind,
                      const std::vector<double>& quiet,
                      const std::vector<double>& struck, double lost_s) {
  const auto n = static_cast<double>(quiet.size());
  const auto goodput = sum_of(struck) / sum_of(quiet);
  std::vector<double> shares;
  for (size_t i = 0; i < quiet.size(); ++i)
    shares.push_back(struck[i] / quiet[i]);
  const auto [least, most] = std::ranges::minmax(shares);
  std::printf("%-38s %6zu %11.2f %11.2f %6.2f s %7.1f %% %7.1f %% %s\n",
              kind.what, quiet.size(), sum_of(quiet) / n, sum_of(struck) / n,
              lost_s, goodput * 100, bar * 100, goodput >= bar ? "yes" : "no");
  std::fflush(stdout);
  return {{"name", std::string{"goodput, "} + kind.name},
          {"members", 4},
          {"bytes", nullptr},
          {"ours_us", 1e6 * n / sum_of(struck)},
          {"spread", most - least},
          {"peer", "the same job undisturbed"},
          {"peer_version", nullptr},
          {"peer_us", 1e6 * n / sum_of(quiet)},
          {"ratio", goodput},
          {"limit_share", goodput / bar},
          {"lost_seconds_a_kill", lost_s},
          {"met", goodput >= bar}};
}

} // namespace

int run_bench_goodput(const Settings& settings) {
  const auto& wanted = settings.recovery;
  const std::chrono::seconds period{wanted.every_s};
  std::printf(
    "4 workers of sleep:20ms; turn by turn %llu s undisturbed, and as "
    "long with one\nkill -9 in them. Steps a second, as the job's "
    "journal counts them. Lost: what\nthe time around a kill lacks of the "
    "pace before and after it in the same period,\nfor each kill. Steps "
    "rolled back: none. Seed %llu.\n",
    static_cast<unsigned long long>(wanted.every_s),
    static_cast<unsigned long long>(wanted.seed));
  std::printf("%-38s %6s %11s %11s %8s %9s %9s %s\n", "", "kills",
              "undisturbed", "with kills", "lost", "goodput", "bar", "met");
  nlohmann::json rows = nlohmann::json::array();
  Interrupt interrupt{false, "before the last trial"};
  for (const auto& kind : recovery_kinds()) {
    const bool asked = std::ranges::find(wanted.kinds, kind.name)
                       != wanted.kinds.end();
    const bool usual = kind.role == RoleKind::worker && !kind.stops;
    if (wanted.kinds.empty() ? !usual : !asked)
      continue;
    std::vector<double> quiet;
    std::vector<double> struck;
    double lost_s = 0;
    RecoveryTrials trials{kind, wanted.seed, interrupt, "sleep:20ms"};
    while (struck.size() < wanted.kills) {
      quiet.push_back(trials.undisturbed(period));
      const auto one = trials.struck(period);
      struck.push_back(one.steps_a_second);
      lost_s += one.lost_seconds;
    }
    trials.finish();
    rows.push_back(
      row_of(kind, quiet, struck, lost_s / static_cast<double>(struck.size())));
  }
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe

#include "apps/bench/recovery_trials.hpp"
#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

namespace {

Choices names_of_recoveries() {
  Choices names;
  for (const auto& kind : recovery_kinds())
    names.emplace_back(kind.name);
  return names;
}

} // namespace

std::vector<Flag> recovery_flags() {
  constexpr uint32_t max_trials = 10'000;
  constexpr uint64_t max_seconds = 86'400;
  std::vector<Flag> flags;
  const auto add = [&](uint64_t on, const char* name, const char* value,
                       const char* fallback, const char* help,
                       std::function<void(Settings&, const std::string&)> set) {
    flags.push_back({name, value, FlagType::text, on, "Measuring", fallback,
                     help, std::move(set), nullptr});
  };
  add(on_recovery, "trials", "N", "50", "times that each kind strikes",
      whole(FIELD(recovery.trials), 1, max_trials).set);
  add(on_goodput, "kills", "N", "5", "of each kind",
      whole(FIELD(recovery.kills), 1, max_trials).set);
  add(on_goodput, "every", "S", "60", "seconds that have one kill, or none",
      whole(FIELD(recovery.every_s), 1, max_seconds).set);
  add(
    on_recovery | on_goodput, "kinds", "KIND,…",
    "all; bench goodput: worker,replica",
    "worker, replica, shard, coordinator, standby, stage, mesh-stage, "
    "tensor: kill -9; stopped-worker, -replica, -shard, -coordinator: SIGSTOP "
    "for 10 s; standby and stopped-coordinator: of two coordinators the one "
    "that leads; stage, mesh-stage, tensor: bench recovery alone",
    [](Settings& s, const std::string& value) {
      s.recovery.kinds = some_of(value, names_of_recoveries());
    });
  add(on_recovery | on_goodput, "seed", "N", "0",
      "who is struck when is drawn from it",
      whole(FIELD(recovery.seed), 0, ~uint64_t{0} >> 1).set);
  return flags;
}

} // namespace troupe

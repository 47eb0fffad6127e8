#include "apps/binding.hpp"
#include "apps/recovery_trials.hpp"

#include <algorithm>

namespace troupe {

using namespace binding;

namespace {

/// Words of a list, each one of what there is.
std::vector<std::string> some_of(const std::string& text,
                                 const Choices& known) {
  auto words = split_list(text);
  for (const auto& word : words)
    require_choice(word, known, {});
  return words;
}

Choices names_of_recoveries() {
  Choices names;
  for (const auto& kind : recovery_kinds())
    names.emplace_back(kind.name);
  return names;
}

std::vector<Flag> recovery_flags() {
  constexpr uint32_t most_trials = 10'000;
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value,
                       const char* fallback, const char* help,
                       std::function<void(Settings&, const std::string&)> set) {
    flags.push_back({name, value, FlagType::text, on_recovery, "Measuring",
                     fallback, help, std::move(set), nullptr});
  };
  add("trials", "N", "50", "times that each kind strikes",
      whole(FIELD(recovery.trials), 1, most_trials).set);
  add("kinds", "KIND,…", "all",
      "worker, replica, shard, coordinator: kill -9; stopped-worker, "
      "stopped-replica, stopped-shard: SIGSTOP for 10 s",
      [](Settings& s, const std::string& value) {
        s.recovery.kinds = some_of(value, names_of_recoveries());
      });
  add("seed", "N", "0", "who is struck when is drawn from it",
      whole(FIELD(recovery.seed), 0, ~uint64_t{0} >> 1).set);
  return flags;
}

} // namespace

std::vector<Flag> chaos_flags() {
  constexpr uint64_t most_faults = 100'000;
  auto flags = recovery_flags();
  const auto add = [&](const char* name, const char* fallback, const char* help,
                       Binding binding) {
    flags.push_back({name, "N", FlagType::number, on_chaos, "Faults", fallback,
                     help, std::move(binding.set), nullptr});
  };
  add("seed", "0", "who dies where and when is drawn from it",
      whole(FIELD(chaos.seed), 0, ~uint64_t{0} >> 1));
  add("faults", "8", "deaths", whole(FIELD(chaos.faults), 1, most_faults));
  return flags;
}

} // namespace troupe

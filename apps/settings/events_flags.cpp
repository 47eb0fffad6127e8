#include "actors/journal/history.hpp"
#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

std::vector<Flag> events_flags() {
  constexpr auto group = "Events";
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value, FlagType type,
                       const char* fallback, const char* help,
                       const Binding& binding) {
    flags.push_back({name, value, type, on_events, group, fallback, help,
                     binding.set, nullptr});
  };
  add("kind", "NAME", FlagType::text, "all",
      "epoch, commits, death, recovery, restart, rollback, change, …",
      choice(FIELD(events.kind), journal_kinds()));
  add("role", "ROLE", FlagType::text, "all", "those of worker:0, ps:1, …",
      text(FIELD(events.role)));
  add("since-step", "N", FlagType::number, "0", "from this step on",
      whole(FIELD(events.since_step), 0, max_steps));
  add(
    "flight", "DIR", FlagType::text, "none",
    "instead of a journal: what each role did in its last 60 s, by the flight "
    "recorders there (--flight or --log-dir of the run)",
    text(FIELD(flight)));
  add("json", "", FlagType::toggle, "no", "one JSON object a line",
      toggle(FIELD(events.json), true));
  add("path", "FILE", FlagType::text, "", "", text(FIELD(events.path)));
  flags.back().commands |= on_timeline | on_report;
  flags.back().group.clear();
  return flags;
}

} // namespace troupe

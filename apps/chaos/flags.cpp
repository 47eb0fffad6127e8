#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

std::vector<Flag> chaos_flags() {
  constexpr uint64_t max_faults = 100'000;
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value,
                       const char* fallback, const char* help,
                       std::function<void(Settings&, const std::string&)> set) {
    flags.push_back({name, value, FlagType::text, on_chaos, "Faults", fallback,
                     help, std::move(set), nullptr});
  };
  add("seed", "N", "0", "who is struck where and when is drawn from it",
      whole(FIELD(chaos.seed), 0, ~uint64_t{0} >> 1).set);
  add("faults", "N", "8", "how many",
      whole(FIELD(chaos.faults), 1, max_faults).set);
  add(
    "kinds", "KIND,…", "kill",
    "kill (-9); stop: stands still for 50 ms to 4 s; slow: a worker, for up "
    "to a second; cut: a link breaks; nan: a value of a worker's gradient is "
    "NaN; device: a worker's device fails; full-disk: the coordinator has no "
    "space for up to 2 s; cut-control: a role loses the coordinator; "
    "slow-disk: what it writes takes a second, for up to 4 s; memory-limit: "
    "a worker gets no more memory; "
    "stall, one-way, throttle: for up to 2 s nothing, nothing one way, or "
    "little passes a link; flip: a bit changes on the way; slow-control: "
    "role and coordinator hear of one another late, for up to 2 s; host-kill: "
    "all roles of a host end, and are started again; host-cut: a cable "
    "between two hosts, for up to 30 s; host-slow: a host's cable, for up to "
    "3 s; signal-all: SIGTERM to every process, and --resume; unreadable: it "
    "ends, and its checkpoints cannot be read for a while; each as often as "
    "the others",
    [](Settings& s, const std::string& value) {
      s.chaos.kinds.clear();
      for (const auto& word : some_of(value, names_of_chaos()))
        parse(word, s.chaos.kinds.emplace_back());
    });
  add("hosts", "N", "3",
      "of host-kill, host-cut and host-slow: network namespaces that the job's "
      "roles are started on one by one",
      whole(FIELD(chaos.hosts), 2, 64).set);
  add("steps-after", "N", "none",
      "end the job by SIGTERM so many steps after its last fault, and compare "
      "with an undisturbed run of as many as it made: its --steps only has to "
      "be large enough",
      [](Settings& s, const std::string& value) {
        s.chaos.steps_after = parse_whole(value, 1, ~uint64_t{0} >> 1);
      });
  add("plan", "FILE", "drawn",
      "TOML that says which role gets which fault when, instead of --seed, "
      "--faults and --kinds",
      text(FIELD(chaos.plan)).set);
  add("write-plan", "FILE", "none",
      "write what struck in that form, so that it can be done again",
      text(FIELD(chaos.write_plan)).set);
  return flags;
}

} // namespace troupe

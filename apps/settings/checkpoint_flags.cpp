#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

namespace {

Binding resuming() {
  return {[](Settings& s, const std::string& value) {
            if (value != "true" && value != "fresh")
              throw UsageError("expected nothing or fresh");
            s.checkpoints.resume = true;
            s.checkpoints.fresh = value == "fresh";
          },
          [](const Settings& s) -> std::string {
            return !s.checkpoints.resume ? ""
                   : s.checkpoints.fresh ? "fresh"
                                         : "true";
          }};
}

} // namespace

std::vector<Flag> checkpoint_flags() {
  std::vector<Flag> flags;
  const auto add = [&](uint64_t commands, const char* name, const char* value,
                       FlagType type, const char* fallback, const char* help,
                       const Binding& binding) {
    flags.push_back({name, value, type, commands, "Checkpoints", fallback, help,
                     binding.set, binding.get});
  };
  constexpr uint64_t on_runs = on_train | on_plan | on_role;
  add(on_runs, "checkpoint-dir", "DIR", FlagType::text, "none",
      "write checkpoints into this folder while the run goes on, and one of "
      "its end, also after Ctrl-C",
      text(FIELD(checkpoints.dir)));
  add(on_runs, "checkpoint-every", "N", FlagType::number, "0, at the end only",
      "steps from one checkpoint to the next; what the disk cannot take in "
      "time is left out",
      whole(FIELD(checkpoints.every), 0, 1'000'000'000'000'000));
  add(on_runs, "checkpoint-keep", "N", FlagType::number, "3",
      "the newest that stay, beside the one that the run resumed from",
      whole(FIELD(checkpoints.keep), 1, 1'000'000));
  add(on_runs, "resume", "[=fresh]", FlagType::toggle, "no",
      "go on from the newest whole checkpoint in --checkpoint-dir, with any "
      "strategy and number of workers and shards; --steps and --epochs count "
      "from the first run's beginning; =fresh: where all are damaged, begin "
      "with step 0 and keep them aside",
      resuming());
  add(on_runs, "initial-weights", "FILE", FlagType::text, "those of --seed",
      "weights to begin with (safetensors, as --save writes them), where "
      "--checkpoint-dir has no checkpoint yet: they become that of step 0",
      text(FIELD(checkpoints.initial)));
  add(on_kept | on_export, "folder", "DIR", FlagType::text, "", "",
      {text(FIELD(checkpoint_folder)).set, nullptr});
  flags.back().group = "";
  return flags;
}

} // namespace troupe

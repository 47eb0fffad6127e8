#include "apps/binding.hpp"

namespace troupe {

using namespace binding;

std::vector<Flag> chaos_flags() {
  constexpr uint64_t most_faults = 100'000;
  std::vector<Flag> flags;
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

#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

std::vector<Flag> top_flags() {
  constexpr auto group = "Top";
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value, FlagType type,
                       const char* fallback, const char* help,
                       const Binding& binding) {
    flags.push_back(
      {name, value, type, on_top, group, fallback, help, binding.set, nullptr});
  };
  add("once", "", FlagType::toggle, "no, but on a pipe",
      "print one page with all roles, after some seconds, and exit",
      toggle(FIELD(top.once), true));
  add("sort", "NAME", FlagType::text, "name",
      "name, trouble, cpu, memory, compute, wait or sent: the largest first",
      choice(FIELD(top.sort),
             {"name", "trouble", "cpu", "memory", "compute", "wait", "sent"}));
  add("group", "", FlagType::toggle, "no", "a row a kind of role",
      toggle(FIELD(top.grouped), true));
  add("filter", "TEXT", FlagType::text, "none",
      "only roles whose name or state has it", text(FIELD(top.filter)));
  return flags;
}

} // namespace troupe

#include "apps/settings/binding.hpp"

#include <algorithm>

namespace troupe::binding {

std::string one_of(const Choices& choices) {
  std::string out = "use ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0)
      out += i + 1 == choices.size() ? " or " : ", ";
    out += choices[i];
  }
  return out;
}

void require_choice(const std::string& value, const Choices& choices) {
  if (std::ranges::find(choices, value) == choices.end())
    throw UsageError("unknown; " + one_of(choices));
}

std::vector<std::string> some_of(const std::string& text,
                                 const Choices& known) {
  auto words = split_list(text);
  for (const auto& word : words)
    require_choice(word, known);
  return words;
}

} // namespace troupe::binding

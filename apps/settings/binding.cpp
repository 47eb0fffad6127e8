#include "apps/settings/binding.hpp"

#include <algorithm>

namespace troupe::binding {

namespace {

bool contains(const Choices& choices, const std::string& value) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

} // namespace

std::string one_of(const Choices& choices) {
  std::string out = "use ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0)
      out += i + 1 == choices.size() ? " or " : ", ";
    out += choices[i];
  }
  return out;
}

void require_choice(const std::string& value, const Choices& choices,
                    const Choices& later) {
  if (contains(choices, value))
    return;
  // topk:0.01 is known by its first word.
  if (contains(later, value)
      || contains(later, value.substr(0, value.find(':'))))
    throw UsageError("not available yet; " + one_of(choices));
  throw UsageError("unknown; " + one_of(choices));
}

std::vector<std::string> some_of(const std::string& text,
                                 const Choices& known) {
  auto words = split_list(text);
  for (const auto& word : words)
    require_choice(word, known, {});
  return words;
}

Binding fixed(const std::string& value, const Choices& later) {
  return {[=](Settings&, const std::string& given) {
            require_choice(given, {value}, later);
          },
          [=](const Settings&) { return value; }};
}

} // namespace troupe::binding

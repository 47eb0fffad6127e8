#include "kernels/graph/model_text.hpp"

#include "kernels/base/error.hpp"

#include <charconv>

namespace troupe::kernels {

namespace {

constexpr uint64_t max_width = 1u << 20;

template <class Number>
bool read(std::string_view text, Number& out) {
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, out);
  return error == std::errc{} && end == last;
}

} // namespace

ModelText::ModelText(const std::string& model) : model(model) {
  const auto colon = model.find(':');
  kind = model.substr(0, colon);
  if (colon == std::string::npos)
    return;
  auto rest = std::string_view{model}.substr(colon + 1);
  for (;;) {
    const auto dash = rest.find('-');
    parts.emplace_back(rest.substr(0, dash));
    if (dash == std::string_view::npos)
      return;
    rest.remove_prefix(dash + 1);
  }
}

void ModelText::refuse(const std::string& what) const {
  throw UsageError("--model " + model + ": " + what);
}

std::vector<uint64_t> ModelText::widths() const {
  const std::string example = "; write e.g. mlp:784-512-256-10";
  std::vector<uint64_t> result;
  for (const auto& part : parts) {
    uint64_t width = 0;
    if (!read(part, width) || width == 0 || width > max_width)
      refuse("width '" + part + "' is not a number from 1 to "
             + std::to_string(max_width) + example);
    result.push_back(width);
  }
  if (result.size() < 2)
    refuse("an mlp needs at least two widths, those of its input and output"
           + example);
  return result;
}

const std::string* ModelText::part(char letter) const {
  if (asked_.find(letter) == asked_.npos)
    asked_ += letter;
  for (const auto& part : parts)
    if (!part.empty() && part.front() == letter)
      return &part;
  return nullptr;
}

uint64_t ModelText::letter(char letter, uint64_t lowest,
                           uint64_t highest) const {
  if (part(letter) == nullptr)
    refuse(std::string{letter} + " and its number are missing" + example());
  return letter_or(letter, lowest, highest, 0);
}

uint64_t ModelText::letter_or(char letter, uint64_t lowest, uint64_t highest,
                              uint64_t fallback) const {
  const auto* found = part(letter);
  if (found == nullptr)
    return fallback;
  uint64_t number = 0;
  if (!read(std::string_view{*found}.substr(1), number) || number < lowest
      || number > highest)
    refuse("'" + *found + "' is not " + letter + " and a number from "
           + std::to_string(lowest) + " to " + std::to_string(highest)
           + example());
  return number;
}

std::string ModelText::example() const {
  return "; write e.g. " + kind
         + (kind == "llama" ? ":L4-H4-K2-D128-T64" : ":L4-H4-D128-T64");
}

double ModelText::fraction(char letter) const {
  const auto* found = part(letter);
  if (found == nullptr)
    return 0;
  double number = 0;
  if (!read(std::string_view{*found}.substr(1), number)
      || !(number >= 0 && number < 1))
    refuse("'" + *found + "' is not " + letter
           + " and a fraction from 0 to below 1");
  return number;
}

void ModelText::finish() const {
  std::string seen;
  for (const auto& part : parts) {
    const auto letter = part.empty() ? '\0' : part.front();
    if (asked_.find(letter) == std::string::npos)
      refuse("'" + part + "' is unknown"
             + (asked_.empty() ? "; " + kind + " takes nothing after it"
                               : "; known are " + asked_));
    if (seen.find(letter) != std::string::npos)
      refuse(std::string{letter} + " is there twice");
    seen += letter;
  }
}

} // namespace troupe::kernels

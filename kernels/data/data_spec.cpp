#include "kernels/data/data_spec.hpp"

#include "kernels/base/error.hpp"
#include "kernels/columns/column_rule.hpp"
#include "kernels/data/data_kinds.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/table_survey.hpp"
#include "kernels/files/file_url.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace troupe {

namespace {

/// The message stays one line whatever was typed.
std::string in_one_line(std::string_view text) {
  std::string result = "\"";
  for (auto c : text)
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + '"';
}

/// A URL's query may be a secret, whether it was typed as one or as keys.
std::string_view without_secrets(std::string_view spec) {
  const auto colon = std::min(spec.find(':'), spec.size() - 1);
  auto place = spec.substr(colon + 1);
  place.remove_prefix(place.starts_with('@') ? 1 : 0);
  const auto keys = std::min(place.find('?'), place.size());
  if (!is_url(place))
    return place.substr(keys).find("://") == place.npos
             ? spec
             : spec.substr(0, spec.find('?'));
  for (const auto* query : {"?", "%3F", "%3f"})
    spec = spec.substr(0, spec.find(query));
  return spec;
}

[[noreturn]] void refuse_text(std::string_view spec, const std::string& what) {
  const auto shown = spec.empty() ? spec : without_secrets(spec);
  throw UsageError("data " + in_one_line(shown) + ": " + what);
}

/// A literal ? cannot be typed as such, since it starts the options.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto next = text.substr(i, 3);
    if (next == "%3F" || next == "%3f") {
      result += '?';
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<std::pair<std::string, std::string>>
parse_options(std::string_view spec, std::string_view text) {
  std::vector<std::pair<std::string, std::string>> result;
  if (text.find('?') != text.npos)
    refuse_text(spec,
                "a second ?; write %3F for a literal ?, and & between options");
  while (true) {
    const auto end = std::min(text.find('&'), text.size());
    const auto option = text.substr(0, end);
    const auto equals = option.find('=');
    if (equals == option.npos || equals == 0 || equals + 1 == option.size())
      refuse_text(spec, in_one_line(option) + " is not of the form key=value");
    auto key = unescaped(option.substr(0, equals));
    for (const auto& earlier : result)
      if (earlier.first == key)
        refuse_text(spec,
                    "key " + in_one_line(key) + " occurs twice; keep one");
    result.emplace_back(std::move(key), unescaped(option.substr(equals + 1)));
    if (end == text.size())
      return result;
    text.remove_prefix(end + 1);
  }
}

/// The kind that a file's name ends with; empty: none.
std::string kind_of_name(std::string_view file) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (file.ends_with(packed))
      file.remove_suffix(packed.size());
  constexpr std::pair<std::string_view, const char*> kinds[]{
    {".csv", "csv"},         {".tsv", "csv"},    {".txt", "text"},
    {".parquet", "parquet"}, {".svm", "libsvm"}, {".libsvm", "libsvm"},
    {".npy", "npy"},         {".tar", "tar"},    {".tfrecord", "tfrecord"},
    {".jsonl", "jsonl"}};
  for (const auto& [ending, kind] : kinds)
    if (file.ends_with(ending))
      return kind;
  return {};
}

/// Not checked yet, but for its form.
DataSpec taken_apart(const std::string& text) {
  const std::string_view view{text};
  if (is_url(view)) {
    const auto shown = shown_place(view);
    throw UsageError("data " + shown
                     + ": which kind of data is there? Say it "
                       "before the address, for example csv:"
                     + shown);
  }
  const auto question = std::min(view.find('?'), view.size());
  const auto place = view.substr(0, question);
  const auto colon = place.find(':');
  if (colon == place.npos) {
    const auto kind = kind_of_name(place);
    refuse_text(view, "is not of the form KIND:WHERE; "
                        + (kind.empty()
                             ? "kinds are: " + data_kind_names()
                             : "did you mean "
                                 + in_one_line(kind + ':' + std::string{place})
                                 + '?'));
  }
  DataSpec result;
  result.kind = place.substr(0, colon);
  result.where = unescaped(place.substr(colon + 1));
  const std::string_view where{result.where};
  const auto address = where.substr(where.starts_with('@') ? 1 : 0);
  if (is_url(address))
    check_kept_url(address);
  if (question < view.size())
    result.options = parse_options(view, view.substr(question + 1));
  for (const auto& [key, value] : result.options)
    if (is_url(value))
      check_kept_url(value);
  return result;
}

} // namespace

bool contains(Words words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string listed(Words words) {
  std::string result;
  for (const auto* word : words)
    result += (result.empty() ? "" : ", ") + std::string{word};
  return result;
}

DataSpec parse_data_spec(const std::string& text) {
  auto result = taken_apart(text);
  check(result);
  return result;
}

DataSpec parse_surveyed_spec(const std::string& text) {
  auto result = taken_apart(text);
  auto others = result;
  std::erase_if(others.options, [](const auto& option) {
    return option.first == "columns" || option.first == "na";
  });
  check(others);
  const auto columns = option(result, "columns");
  if (columns && option(result, "label"))
    refuse(result, "label= does not go with columns=, which says it: "
                   "NAME:label for classes, NAME:target for a number");
  if (columns && !columns->starts_with('@')) {
    try {
      check_some_column_rules(parse_column_rules(*columns));
    } catch (const UsageError& mistake) {
      refuse(result, mistake.what());
    }
  }
  return result;
}

DataSpec parse_labelled_spec(const std::string& text) {
  auto result = parse_data_spec(text);
  if (const auto check_labels = kind_of(result).check_labels)
    check_labels(result);
  return result;
}

std::string to_string(const DataSpec& spec) {
  auto result = spec.kind + ":" + spec.where;
  auto separator = '?';
  for (const auto& [key, value] : spec.options) {
    result += separator;
    result += key;
    result += '=';
    result += value;
    separator = '&';
  }
  return result;
}

void refuse(const DataSpec& spec, const std::string& what) {
  refuse_text(to_string(spec), what);
}

void refuse_held(const DataSpec& spec, uint64_t memory) {
  throw InputError(spec.kind + ":" + spec.where + ": takes more than the "
                   + std::to_string(memory)
                   + " bytes of --data-memory, and data of this kind are read "
                     "whole; raise it, take a part of them, or write tfrecord, "
                     "tar or jsonl files");
}

std::optional<std::string> option(const DataSpec& spec, std::string_view key) {
  for (const auto& [name, value] : spec.options)
    if (name == key)
      return value;
  return std::nullopt;
}

uint64_t whole_option(const DataSpec& spec, std::string_view key,
                      uint64_t otherwise, uint64_t lowest, uint64_t highest) {
  const auto text = option(spec, key);
  if (!text)
    return otherwise;
  uint64_t result = 0;
  const auto* last = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), last, result);
  if (error != std::errc{} || stop != last || result < lowest
      || result > highest)
    refuse(spec, std::string{key} + "=" + *text + " is not a whole number from "
                   + std::to_string(lowest) + " to " + std::to_string(highest));
  return result;
}

std::string choice_option(const DataSpec& spec, std::string_view key,
                          Words choices) {
  auto result = option(spec, key).value_or(choices.front());
  if (!contains(choices, result))
    refuse(spec, "unknown " + std::string{key} + " " + in_one_line(result)
                   + "; there are: " + listed(choices));
  return result;
}

} // namespace troupe

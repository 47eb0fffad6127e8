#include "kernels/columns/column_rule.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace troupe {

namespace {

constexpr uint64_t max_categories = 100'000;
constexpr uint64_t max_entities = 4'000'000;
constexpr uint64_t max_classes = 65'536;
constexpr uint64_t max_buckets = 100'000'000;
constexpr size_t max_columns = 100'000;

constexpr const char* standard_scale = "standard";

template <class Value>
using Names = std::vector<std::pair<const char*, Value>>;

const Names<ColumnKind>& kind_names() {
  static const Names<ColumnKind> names{
    {"number", ColumnKind::number}, {"category", ColumnKind::category},
    {"id", ColumnKind::id},         {"date", ColumnKind::date},
    {"label", ColumnKind::label},   {"target", ColumnKind::target},
    {"ignore", ColumnKind::ignore}};
  return names;
}

const Names<DateForm>& form_names() {
  static const Names<DateForm> names{{"ymd", DateForm::ymd},
                                     {"dmy", DateForm::dmy},
                                     {"mdy", DateForm::mdy},
                                     {"unix", DateForm::unix_seconds}};
  return names;
}

const Names<MissingRule>& missing_names() {
  static const Names<MissingRule> names{{"mean", MissingRule::mean},
                                        {"median", MissingRule::median},
                                        {"flag", MissingRule::flag},
                                        {"refuse", MissingRule::refuse}};
  return names;
}

template <class Value>
std::optional<Value>
find_name(const Names<Value>& names, std::string_view word) {
  for (const auto& [name, value] : names)
    if (name == word)
      return value;
  return std::nullopt;
}

template <class Value>
std::string name_of(const Names<Value>& names, Value wanted) {
  for (const auto& [name, value] : names)
    if (value == wanted)
      return name;
  return {};
}

/// The keys that rules of this kind take; empty: none.
std::string keys_of(const ColumnRule& rule) {
  if (rule.has_id())
    return "min_count, max_values, buckets";
  return rule.kind == ColumnKind::date     ? "missing, form, cycle"
         : rule.kind == ColumnKind::number ? "missing"
         : rule.kind == ColumnKind::target ? "scale"
                                           : "";
}

template <class Value>
std::string list_of(const Names<Value>& names) {
  std::string result;
  for (const auto& [name, value] : names)
    result += (result.empty() ? "" : ", ") + std::string{name};
  return result;
}

/// A rule that is being read.
class RuleText {
public:
  explicit RuleText(std::string_view text) : text_(text) {}

  ColumnRule read() {
    auto left = text_;
    const auto name = take(left);
    if (left.empty())
      refuse("is not of the form NAME:KIND");
    rule_.name = unescaped_text(trimmed(name));
    if (rule_.name.empty())
      refuse("names no column");
    const std::string kind{trimmed(take(left))};
    const auto found = find_name(kind_names(), kind);
    if (!found) {
      std::vector<std::string> known;
      for (const auto& [word, value] : kind_names())
        known.emplace_back(word);
      const auto near = nearest(kind, known);
      refuse("has the kind " + in_quotes(kind)
             + (near.empty() ? "; kinds are " + list_of(kind_names())
                             : "; did you mean " + near + "?"));
    }
    rule_.kind = *found;
    while (!left.empty())
      set(trimmed(take(left)));
    if (rule_.name == "*" && rule_.is_label())
      refuse("makes every column a label; name one");
    if (rule_.buckets > 0 && (rule_.min_count > 1 || rule_.max_values > 0))
      refuse("has buckets=, and so no vocabulary that min_count= or "
             "max_values= could be of; leave them out");
    return rule_;
  }

private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError("columns: " + in_quotes(text_) + " " + what);
  }

  /// What is before the next colon; `left` is what follows it.
  static std::string_view take(std::string_view& left) {
    const auto end = std::min(left.find(':'), left.size());
    const auto word = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    return word;
  }

  void set(std::string_view option) {
    const auto equals = option.find('=');
    if (equals == option.npos || equals == 0 || equals + 1 == option.size())
      refuse("has " + in_quotes(option) + ", which is not of the form "
             + "KEY=VALUE");
    const auto key = option.substr(0, equals);
    const auto value = option.substr(equals + 1);
    if (!given_.insert(std::string{key}).second)
      refuse("has " + std::string{key} + "= twice");
    if (key == "missing" && rule_.has_feature())
      set_missing(value);
    else if (key == "min_count" && rule_.has_id())
      rule_.min_count = whole(key, value, 1, uint64_t{1} << 32);
    else if (key == "max_values" && rule_.has_id())
      rule_.max_values = whole(key, value, 1, max_buckets);
    else if (key == "buckets" && rule_.has_id())
      rule_.buckets = whole(key, value, 2, max_buckets);
    else if (key == "form" && rule_.kind == ColumnKind::date)
      set_form(value);
    else if (key == "cycle" && rule_.kind == ColumnKind::date)
      set_cycles(value);
    else if (key == "scale" && rule_.kind == ColumnKind::target)
      set_scale(value);
    else if (const auto keys = keys_of(rule_); keys.empty())
      refuse("has " + std::string{key}
             + "=, which a column of its kind does not take");
    else
      refuse("has " + std::string{key} + "=, which is none of " + keys);
  }

  void set_missing(std::string_view value) {
    if (const auto found = find_name(missing_names(), value)) {
      rule_.missing = *found;
      return;
    }
    const auto number = parse_real(value);
    if (!number || std::fabs(*number) > std::numeric_limits<float>::max())
      refuse("has missing=" + std::string{value} + "; give a number, or "
             + list_of(missing_names()));
    rule_.missing = MissingRule::value;
    rule_.fill = static_cast<float>(*number);
  }

  void set_form(std::string_view value) {
    const auto found = find_name(form_names(), value);
    if (!found)
      refuse("has form=" + std::string{value} + "; give "
             + list_of(form_names()));
    rule_.form = *found;
  }

  void set_cycles(std::string_view value) {
    while (!value.empty()) {
      const auto end = std::min(value.find('+'), value.size());
      const auto word = value.substr(0, end);
      auto* cycle = word == "weekday" ? &rule_.weekday
                    : word == "hour"  ? &rule_.hour
                    : word == "month" ? &rule_.month
                                      : nullptr;
      if (cycle == nullptr)
        refuse("has the cycle " + in_quotes(word)
               + "; give weekday, hour or month, with + between several");
      *cycle = true;
      value.remove_prefix(std::min(end + 1, value.size()));
    }
  }

  void set_scale(std::string_view value) {
    if (value != standard_scale && value != "none")
      refuse("has scale=" + std::string{value} + "; give none or "
             + standard_scale);
    rule_.scaled = value == standard_scale;
  }

  uint64_t whole(std::string_view key, std::string_view text, uint64_t lowest,
                 uint64_t highest) const {
    uint64_t result = 0;
    const auto* last = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), last, result);
    if (error != std::errc{} || stop != last || result < lowest
        || result > highest)
      refuse("has " + std::string{key} + "=" + std::string{text}
             + ", no whole number from " + std::to_string(lowest) + " to "
             + std::to_string(highest));
    return result;
  }

  std::string_view text_;
  ColumnRule rule_;
  std::set<std::string, std::less<>> given_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

} // namespace

size_t ColumnRule::features() const {
  if (!has_feature())
    return 0;
  size_t count = missing == MissingRule::flag ? 2 : 1;
  for (const bool cycle : {weekday, hour, month})
    count += cycle ? 2 : 0;
  return count;
}

uint64_t ColumnRule::value_limit() const {
  if (max_values > 0)
    return max_values;
  return kind == ColumnKind::id      ? max_entities
         : kind == ColumnKind::label ? max_classes
                                     : max_categories;
}

std::string escaped_text(std::string_view text,
                         const std::function<bool(char)>& kept) {
  constexpr auto digits = "0123456789ABCDEF";
  std::string result;
  for (auto c : text)
    if (kept(c)) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += '%';
      result += digits[byte >> 4];
      result += digits[byte & 15];
    }
  return result;
}

std::string unescaped_text(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const auto high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      throw UsageError("columns: " + in_quotes(text)
                       + " has a % without two hexadecimal digits; write %25 "
                         "for a % of a name");
    result += static_cast<char>(16 * high + low);
    i += 2;
  }
  return result;
}

ColumnRule parse_column_rule(std::string_view text) {
  return RuleText{text}.read();
}

std::vector<ColumnRule> parse_column_rules(std::string_view text) {
  std::vector<ColumnRule> rules;
  while (true) {
    const auto end = std::min(text.find(','), text.size());
    rules.push_back(parse_column_rule(text.substr(0, end)));
    if (rules.size() > max_columns)
      throw UsageError("columns: names more than " + std::to_string(max_columns)
                       + " columns");
    if (end == text.size())
      return rules;
    text.remove_prefix(end + 1);
  }
}

std::vector<ColumnRule> read_column_rules(const std::string& path) {
  std::vector<ColumnRule> rules;
  TextLines lines{path};
  std::string_view line;
  while (lines.next(line)) {
    line = trimmed(line);
    if (line.empty() || line.starts_with('#'))
      continue;
    try {
      rules.push_back(parse_column_rule(line));
    } catch (const UsageError& mistake) {
      throw InputError(path + ":" + std::to_string(lines.number()) + ": "
                       + mistake.what());
    }
    if (rules.size() > max_columns)
      lines.refuse("is beyond " + std::to_string(max_columns) + " columns",
                   "is this a file of columns?");
  }
  if (rules.empty())
    throw InputError(path + ": names no column; write NAME:KIND a line");
  return rules;
}

std::string to_text(const ColumnRule& rule) {
  const bool utf8 = is_utf8(rule.name);
  auto text = escaped_text(rule.name, [utf8](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f && (byte < 0x80 || utf8)
           && std::string_view{",:%&?#@'"}.find(c) == std::string_view::npos;
  });
  // Spaces around a name would be left out.
  if (text.starts_with(' '))
    text = "%20" + text.substr(1);
  if (text.ends_with(' '))
    text = text.substr(0, text.size() - 1) + "%20";
  text += ':' + name_of(kind_names(), rule.kind);
  const auto add = [&](const char* key, const std::string& value) {
    text += std::string{":"} + key + '=' + value;
  };
  if (rule.min_count > 1)
    add("min_count", std::to_string(rule.min_count));
  if (rule.max_values > 0)
    add("max_values", std::to_string(rule.max_values));
  if (rule.buckets > 0)
    add("buckets", std::to_string(rule.buckets));
  if (rule.missing == MissingRule::value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   rule.fill);
    add("missing", {digits.data(), end.ptr});
  } else if (rule.missing != MissingRule::mean) {
    add("missing", name_of(missing_names(), rule.missing));
  }
  if (rule.form != DateForm::ymd)
    add("form", name_of(form_names(), rule.form));
  std::string cycles;
  for (const auto& [wanted, name] :
       {std::pair{rule.weekday, "weekday"}, std::pair{rule.hour, "hour"},
        std::pair{rule.month, "month"}})
    if (wanted)
      cycles += (cycles.empty() ? "" : "+") + std::string{name};
  if (!cycles.empty())
    add("cycle", cycles);
  if (rule.scaled)
    add("scale", standard_scale);
  return text;
}

std::string to_text(const std::vector<ColumnRule>& rules) {
  std::string text;
  for (const auto& rule : rules)
    text += (text.empty() ? "" : ",") + to_text(rule);
  return text;
}

void check_some_column_rules(const std::vector<ColumnRule>& rules) {
  std::set<std::string> names;
  const ColumnRule* label = nullptr;
  for (const auto& rule : rules) {
    if (!names.insert(rule.name).second)
      throw UsageError("columns: names " + in_quotes(rule.name)
                       + " twice; keep one");
    if (!rule.is_label())
      continue;
    if (label != nullptr)
      throw UsageError("columns: both " + in_quotes(label->name) + " and "
                       + in_quotes(rule.name) + " are the label; keep one");
    label = &rule;
  }
}

void check_column_rules(const std::vector<ColumnRule>& rules) {
  check_some_column_rules(rules);
  if (std::ranges::none_of(rules, &ColumnRule::is_label))
    throw UsageError("columns: none is the label; add NAME:label for classes "
                     "or NAME:target for a number");
  if (std::ranges::none_of(rules, [](const ColumnRule& rule) {
        return rule.has_feature() || rule.has_id();
      }))
    throw UsageError("columns: there is nothing to learn from; add "
                     "NAME:number, category, id or date");
}

} // namespace troupe

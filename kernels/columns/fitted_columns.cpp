#include "kernels/columns/fitted_columns.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/strict_json.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

using FittedJson = kernels::StrictJson<>;

/// JSON is UTF-8, and a column may hold anything.
std::string plain_text(std::string_view text) {
  const bool utf8 = is_utf8(text);
  return escaped_text(text, [utf8](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c != '%' && byte >= 0x20 && (byte < 0x80 || utf8);
  });
}

const std::string* find_value(const std::vector<std::string>& values,
                              std::string_view text) {
  const auto found = std::lower_bound(values.begin(), values.end(), text);
  return found != values.end() && *found == text ? &*found : nullptr;
}

FittedColumn column_from(const FittedJson& json) {
  FittedColumn column;
  column.rule =
    parse_column_rule(unescaped_text(json.at("rule").get<std::string>()));
  if (json.contains("fill"))
    column.fill = json.at("fill").get<float>();
  if (json.contains("values"))
    for (const auto& value : json.at("values"))
      column.values.push_back(unescaped_text(value.get<std::string>()));
  if (column.rule.scaled) {
    column.mean = json.at("mean").get<float>();
    column.deviation = json.at("deviation").get<float>();
  }
  const auto& values = column.values;
  if (!std::isfinite(column.fill) || !std::isfinite(column.mean)
      || !std::isfinite(column.deviation) || column.deviation <= 0
      || std::adjacent_find(values.begin(), values.end(), std::greater_equal{})
           != values.end()
      || values.size() > column.rule.value_limit()
      || (column.rule.kind == ColumnKind::label && values.size() < 2))
    throw InputError("a column is not as it was written");
  return column;
}

std::vector<int32_t> characters_from(const FittedJson& json) {
  constexpr int64_t last_code_point = 0x10ffff;
  std::vector<int32_t> characters;
  int64_t before = -1;
  for (const auto& one : json) {
    const auto character = one.is_number_integer() ? one.get<int64_t>() : -1;
    if (character <= before || character > last_code_point)
      throw InputError("its characters are not as they were written");
    characters.push_back(static_cast<int32_t>(character));
    before = character;
  }
  return characters;
}

} // namespace

uint64_t FittedColumn::ids() const {
  return rule.buckets > 0 ? rule.buckets : first_known_id + values.size();
}

int32_t FittedColumn::id_of(std::string_view text) const {
  const auto* found = find_value(values, text);
  return found == nullptr
           ? unknown_id
           : first_known_id + static_cast<int32_t>(found - values.data());
}

int32_t FittedColumn::class_of(std::string_view text) const {
  const auto* found = find_value(values, text);
  return found == nullptr ? -1 : static_cast<int32_t>(found - values.data());
}

std::vector<ColumnRule> FittedColumns::rules() const {
  std::vector<ColumnRule> result;
  for (const auto& column : columns)
    result.push_back(column.rule);
  return result;
}

const std::vector<std::string>& FittedColumns::classes() const {
  static const std::vector<std::string> none;
  for (const auto& column : columns)
    if (column.rule.kind == ColumnKind::label)
      return column.values;
  return none;
}

void FittedColumns::unscale(std::vector<float>& numbers) const {
  for (const auto& column : columns)
    if (column.rule.scaled)
      for (auto& number : numbers)
        number =
          static_cast<float>(double{number} * column.deviation + column.mean);
}

std::string other_values(const FittedColumns& a, const FittedColumns& b) {
  std::vector<const FittedColumn*> of_b;
  for (const auto& column : b.columns)
    if (column.rule.has_id() || column.rule.has_vocabulary())
      of_b.push_back(&column);
  size_t next = 0;
  for (const auto& column : a.columns) {
    if (!column.rule.has_id() && !column.rule.has_vocabulary())
      continue;
    if (next == of_b.size() || column.rule.buckets != of_b[next]->rule.buckets
        || column.values != of_b[next]->values)
      return column.rule.name;
    ++next;
  }
  return next < of_b.size() ? of_b[next]->rule.name : std::string{};
}

uint64_t kept_bytes(const FittedColumns& fitted) {
  constexpr uint64_t around = 8;  // quotes, as an escape each, and a comma
  constexpr uint64_t escaped = 3; // %XX, as a byte of a value may be
  uint64_t most = 0;
  for (const auto& column : fitted.columns)
    for (const auto& value : column.values)
      most += escaped * value.size() + around;
  if (most <= max_vocabulary_bytes)
    return most;
  const auto text = to_json(fitted);
  return text.size()
         + static_cast<uint64_t>(
           std::count_if(text.begin(), text.end(),
                         [](char c) { return c == '"' || c == '\\'; }));
}

std::string to_json(const FittedColumns& fitted) {
  FittedJson json;
  json["given"] = plain_text(fitted.given);
  json["options"] = FittedJson::array();
  for (const auto& [key, value] : fitted.options)
    json["options"].push_back({key, plain_text(value)});
  json["columns"] = FittedJson::array();
  for (const auto& column : fitted.columns) {
    FittedJson one;
    one["rule"] = plain_text(to_text(column.rule));
    if (column.rule.has_feature())
      one["fill"] = column.fill;
    if (column.rule.has_vocabulary()) {
      one["values"] = FittedJson::array();
      for (const auto& value : column.values)
        one["values"].push_back(plain_text(value));
    }
    if (column.rule.scaled) {
      one["mean"] = column.mean;
      one["deviation"] = column.deviation;
    }
    json["columns"].push_back(std::move(one));
  }
  if (!fitted.mean.empty()) {
    json["mean"] = fitted.mean;
    json["inverse_deviation"] = fitted.inverse_deviation;
  }
  if (!fitted.characters.empty())
    json["characters"] = fitted.characters;
  if (!fitted.tokenizer.empty())
    json["tokenizer"] = fitted.tokenizer;
  return json.dump();
}

FittedColumns fitted_columns_from_json(const std::string& text,
                                       const std::string& path) {
  constexpr size_t deepest = 4;
  try {
    if (kernels::nested_deeper(text, deepest))
      throw InputError("it is nested too deeply");
    const auto json = FittedJson::parse(text);
    FittedColumns fitted;
    fitted.given = unescaped_text(json.at("given").get<std::string>());
    for (const auto& option : json.at("options"))
      fitted.options.emplace_back(
        option.at(0).get<std::string>(),
        unescaped_text(option.at(1).get<std::string>()));
    for (const auto& column : json.at("columns"))
      fitted.columns.push_back(column_from(column));
    if (json.contains("mean")) {
      fitted.mean = json.at("mean").get<std::vector<float>>();
      fitted.inverse_deviation =
        json.at("inverse_deviation").get<std::vector<float>>();
    }
    if (json.contains("characters"))
      fitted.characters = characters_from(json.at("characters"));
    if (json.contains("tokenizer"))
      fitted.tokenizer = json.at("tokenizer").get<std::string>();
    if (fitted.of_table() || (fitted.mean.empty() && !fitted.of_text()))
      check_column_rules(fitted.rules());
    return fitted;
  } catch (const std::exception& failure) {
    throw InputError(path + ": what it says of the data it was trained on "
                     + "cannot be read (" + shown_text(failure.what())
                     + "); the file is damaged: write it again");
  }
}

} // namespace troupe

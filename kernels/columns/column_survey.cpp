#include "kernels/columns/column_survey.hpp"

#include "kernels/columns/dates.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

constexpr DateForm looked_for[]{DateForm::ymd, DateForm::dmy, DateForm::mdy};
/// Classes that a label of whole numbers may have, else it is a number.
constexpr uint64_t max_number_classes = 20;
constexpr uint64_t max_counted_numbers = 100'000;
/// How many different texts a column of numbers may have, and in how many of
/// its fields, so that they are taken for missing ones.
constexpr size_t few_texts = 3;
constexpr double few_fields = 0.05;
/// Share of missing numbers from which on that they are is told the model.
constexpr double worth_a_flag = 0.05;
/// Targets whose mean is at most this far from 0, and whose deviation is within
/// these, are learned as they are.
constexpr double farthest_mean = 10;
constexpr double min_deviation = 0.1;
constexpr double max_deviation = 10;
/// Numbers that may be seconds since 1970: the years 1980 to 2100.
constexpr double first_seconds = 315'532'800;
constexpr double last_seconds = 4'102'444'800;

std::string lower_case(std::string text) {
  for (auto& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// As "3,14" is written where the decimal separator is a comma.
bool has_decimal_comma(std::string_view text) {
  const auto at = text.find(',');
  if (at == text.npos || text.find('.') != text.npos)
    return false;
  auto with_point = std::string{text};
  with_point[at] = '.';
  return parse_real(with_point).has_value();
}

} // namespace

void ColumnSurvey::add(std::string_view text, const MissingTexts& missing,
                       bool may_count) {
  ++rows_;
  if (missing.has(text)) {
    ++missing_;
    return;
  }
  const auto number = parse_real(text);
  if (number && std::fabs(*number) <= std::numeric_limits<float>::max()) {
    min_ = numbers_ == 0 ? *number : std::min(min_, *number);
    max_ = numbers_ == 0 ? *number : std::max(max_, *number);
    sum_ += *number;
    first_ = numbers_ == 0 ? *number : first_;
    squares_ += (*number - first_) * (*number - first_);
    ++numbers_;
    whole_ += *number == std::floor(*number) ? 1 : 0;
  } else {
    if (texts_.size() <= few_texts
        && std::ranges::find(texts_, text) == texts_.end())
      texts_.emplace_back(text);
    if (has_decimal_comma(text) && commas_++ == 0)
      comma_ = text;
    if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      for (size_t i = 0; i < std::size(looked_for); ++i)
        dates_[i] += parse_date(text, looked_for[i]) ? 1 : 0;
      times_ += text.find(':') != text.npos ? 1 : 0;
    }
  }
  if (more_)
    return;
  // Of numbers it does not matter how many there are.
  const auto most = numbers_ == present() && !names_ids()
                      ? max_counted_numbers
                      : ColumnRule{{}, ColumnKind::id}.value_limit();
  if (!may_count || values_.size() > most) {
    more_ = true; // a value that is known would not be missed, either
    return;
  }
  const auto value = values_.add(text);
  counts_.resize(values_.size());
  ++counts_[value];
}

std::vector<std::string> ColumnSurvey::strays() const {
  const auto others = static_cast<double>(present() - numbers_);
  const bool few = numbers_ > 0 && texts_.size() <= few_texts
                   && others <= few_fields * static_cast<double>(present());
  return few && !names_ids() ? texts_ : std::vector<std::string>{};
}

std::string ColumnSurvey::with_comma() const {
  return commas_ > 0 && commas_ + numbers_ == present() ? comma_ : "";
}

void ColumnSurvey::pass_over_strays() {
  missing_ = rows_ - numbers_;
}

double ColumnSurvey::deviation() const {
  const auto away = mean() - first_;
  const auto variance = squares_ / static_cast<double>(numbers_) - away * away;
  return std::sqrt(std::max(variance, 0.0));
}

/// Steps of the usual size would not reach such numbers, or go past them.
bool ColumnSurvey::needs_scale() const {
  return std::fabs(mean()) > farthest_mean || deviation() < min_deviation
         || deviation() > max_deviation;
}

std::vector<std::string> ColumnSurvey::examples() const {
  constexpr uint32_t most = 3;
  std::vector<std::string> result;
  for (uint32_t i = 0; i < std::min(most, values_.size()); ++i)
    result.emplace_back(values_.text(i));
  return result;
}

uint64_t ColumnSurvey::seen_once() const {
  return static_cast<uint64_t>(
    std::count(counts_.begin(), counts_.end(), uint32_t{1}));
}

/// "user", "userId", "item_id", but not "paid".
bool ColumnSurvey::names_ids() const {
  const auto name = lower_case(name_);
  if (name == "id" || name == "user" || name == "item" || name == "movie"
      || name == "product" || name == "customer")
    return true;
  return name.ends_with("_id") || name.ends_with(" id") || name.ends_with("-id")
         || name_.ends_with("Id") || name_.ends_with("ID");
}

ColumnRule ColumnSurvey::proposal(bool label) const {
  ColumnRule rule;
  rule.name = name_;
  const auto different = values();
  if (label) {
    const bool classes = !more_ && whole_ == present()
                         && different <= max_number_classes;
    const bool number = all_numbers()
                        && (!classes || lower_case(name_) == "rating");
    rule.kind = number ? ColumnKind::target : ColumnKind::label;
    rule.scaled = number && needs_scale();
    return rule;
  }
  rule.kind = ColumnKind::ignore;
  if (name_.empty() || (!more_ && different <= 1))
    return rule; // nothing can be learned from it
  const bool distinct = !more_ && different == present() && present() > 20;
  if (all_numbers()) {
    const bool ids = names_ids() && whole_ == numbers_;
    if (ids && distinct)
      return rule; // a number of the line
    const auto name = lower_case(name_);
    const bool times = name.find("time") != name.npos && min_ >= first_seconds
                       && max_ <= last_seconds;
    rule.kind = ids     ? ColumnKind::id
                : times ? ColumnKind::date
                        : ColumnKind::number;
    if (times && !ids)
      rule.form = DateForm::unix_seconds;
  }
  for (size_t i = std::size(looked_for); i-- > 0;)
    if (dates_[i] == present()) { // ymd first, then dmy
      rule.kind = ColumnKind::date;
      rule.form = looked_for[i];
      rule.weekday = true;
      rule.hour = times_ > 0;
    }
  if (rule.has_feature()) {
    const auto share = static_cast<double>(missing_)
                       / static_cast<double>(rows_);
    rule.missing = missing_ == 0           ? MissingRule::mean
                   : share >= worth_a_flag ? MissingRule::flag
                                           : MissingRule::median;
    return rule;
  }
  if (rule.kind == ColumnKind::id)
    return rule;
  if (distinct && names_ids())
    return rule; // nobody comes again
  // Text: names of people and such are of no use, users' are.
  if (!more_ && !names_ids() && 2 * different > present() && present() > 20)
    return rule;
  rule.kind = names_ids() ? ColumnKind::id : ColumnKind::category;
  if (more_ || different > rule.value_limit())
    rule.buckets = rule.value_limit();
  else if (!names_ids() && 4 * seen_once() > different && different > 20)
    rule.min_count = 2;
  return rule;
}

} // namespace troupe

#include "kernels/columns/dates.hpp"

#include "kernels/files/text_lines.hpp"

#include <cmath>
#include <utility>

namespace troupe {

namespace {

constexpr float sines_24[]{0.0f,          0.258819045f,  0.5f,  0.707106781f,
                           0.866025404f,  0.965925826f,  1.0f,  0.965925826f,
                           0.866025404f,  0.707106781f,  0.5f,  0.258819045f,
                           0.0f,          -0.258819045f, -0.5f, -0.707106781f,
                           -0.866025404f, -0.965925826f, -1.0f, -0.965925826f,
                           -0.866025404f, -0.707106781f, -0.5f, -0.258819045f};
constexpr float sines_7[]{0.0f,         0.781831482f,  0.974927912f,
                          0.433883739f, -0.433883739f, -0.974927912f,
                          -0.781831482f};
constexpr float cosines_7[]{1.0f,          0.623489802f,  -0.222520934f,
                            -0.900968868f, -0.900968868f, -0.222520934f,
                            0.623489802f};

constexpr double day_seconds = 86'400;
constexpr int64_t unix_days_2000 = 10'957; ///< from 1970 to 2000
/// Seconds since 1970 of the years 1 to 9999.
constexpr double first_unix = -62'135'596'800.0;
constexpr double last_unix = 253'402'300'799.0;

/// A text that is taken from its front.
class DateText {
public:
  explicit DateText(std::string_view text) : text_(text) {}

  bool empty() const { return text_.empty(); }
  bool take(char c) {
    const bool found = text_.starts_with(c);
    text_.remove_prefix(found ? 1 : 0);
    return found;
  }
  char front() const { return text_.empty() ? '\0' : text_.front(); }
  /// A number of `fewest` to `most` digits.
  std::optional<int64_t> number(size_t fewest, size_t most) {
    int64_t result = 0;
    size_t digits = 0;
    while (digits < most && digits < text_.size() && text_[digits] >= '0'
           && text_[digits] <= '9')
      result = 10 * result + (text_[digits++] - '0');
    text_.remove_prefix(digits);
    return digits < fewest ? std::nullopt : std::optional{result};
  }

private:
  std::string_view text_;
};

bool is_leap(int64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int64_t days_in(int64_t year, int64_t month) {
  constexpr int64_t days[]{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

/// Days from 2000-01-01 to a day of the Gregorian calendar.
int64_t days_to(int64_t year, int64_t month, int64_t day) {
  const auto before = year - 1; // whole years since the year 1
  auto days = 365 * before + before / 4 - before / 100 + before / 400;
  for (int64_t i = 1; i < month; ++i)
    days += days_in(year, i);
  constexpr int64_t days_2000 = 365 * 1999 + 1999 / 4 - 1999 / 100 + 1999 / 400;
  return days + day - 1 - days_2000;
}

/// 2000-01-01 was a Saturday.
uint32_t weekday_of(int64_t days) {
  return static_cast<uint32_t>(((days + 5) % 7 + 7) % 7);
}

std::optional<int64_t> take_day(DateText& text, DateForm form, ReadDate& date) {
  const bool year_first = form == DateForm::ymd;
  auto first = year_first ? text.number(4, 4) : text.number(1, 2);
  const auto between = text.front();
  if (!first || (between != '-' && between != '/' && between != '.'))
    return std::nullopt;
  text.take(between);
  auto second = text.number(1, 2);
  if (!second || !text.take(between))
    return std::nullopt;
  auto third = year_first ? text.number(1, 2) : text.number(4, 4);
  if (!third)
    return std::nullopt;
  if (year_first)
    std::swap(first, third); // the day first
  if (form == DateForm::mdy)
    std::swap(first, second);
  const auto day = *first;
  const auto month = *second;
  const auto year = *third;
  if (year < 1 || month < 1 || month > 12 || day < 1
      || day > days_in(year, month))
    return std::nullopt;
  date.month = static_cast<uint32_t>(month - 1);
  const auto days = days_to(year, month, day);
  date.weekday = weekday_of(days);
  return days;
}

/// HH:MM[:SS[.FRACTION]], in seconds.
std::optional<double> take_time(DateText& text, ReadDate& date) {
  const auto hour = text.number(1, 2);
  if (!hour || *hour > 23 || !text.take(':'))
    return std::nullopt;
  const auto minute = text.number(2, 2);
  if (!minute || *minute > 59)
    return std::nullopt;
  date.hour = static_cast<uint32_t>(*hour);
  auto seconds = static_cast<double>(*hour * 3600 + *minute * 60);
  if (!text.take(':'))
    return seconds;
  const auto whole = text.number(2, 2);
  if (!whole || *whole > 60) // a leap second
    return std::nullopt;
  seconds += static_cast<double>(*whole);
  if (!text.take('.'))
    return seconds;
  double unit = 0.1;
  if (text.front() < '0' || text.front() > '9')
    return std::nullopt;
  while (const auto digit = text.number(1, 1)) {
    seconds += unit * static_cast<double>(*digit);
    unit /= 10;
  }
  return seconds;
}

/// Z, +01:00, +0100 or +01, in seconds; none where nothing is said.
std::optional<double> take_offset(DateText& text) {
  if (text.empty() || text.take('Z') || text.take('z'))
    return 0.0;
  const bool behind = text.take('-');
  if (!behind && !text.take('+'))
    return std::nullopt;
  const auto hours = text.number(2, 2);
  if (!hours || *hours > 23)
    return std::nullopt;
  int64_t minutes = 0;
  if (text.take(':') || !text.empty()) {
    const auto read = text.number(2, 2);
    if (!read || *read > 59)
      return std::nullopt;
    minutes = *read;
  }
  const auto seconds = static_cast<double>(*hours * 3600 + minutes * 60);
  return behind ? -seconds : seconds;
}

std::optional<ReadDate> unix_date(std::string_view text) {
  const auto seconds = parse_real(text);
  if (!seconds || *seconds < first_unix || *seconds > last_unix)
    return std::nullopt;
  ReadDate date;
  date.seconds = *seconds - static_cast<double>(unix_days_2000) * day_seconds;
  const auto days = std::floor(date.seconds / day_seconds);
  date.hour = static_cast<uint32_t>((date.seconds - days * day_seconds) / 3600);
  auto left = static_cast<int64_t>(days);
  date.weekday = weekday_of(left);
  auto year = 2000 + left / 366; // at or after the one
  while (days_to(year + 1, 1, 1) <= left)
    ++year;
  while (days_to(year, 1, 1) > left)
    --year;
  left -= days_to(year, 1, 1);
  while (left >= days_in(year, date.month + 1))
    left -= days_in(year, ++date.month);
  return date;
}

} // namespace

std::optional<ReadDate> parse_date(std::string_view text, DateForm form) {
  text = trimmed(text);
  if (form == DateForm::unix_seconds)
    return unix_date(text);
  ReadDate date;
  DateText left{text};
  const auto days = take_day(left, form, date);
  if (!days)
    return std::nullopt;
  date.seconds = static_cast<double>(*days) * day_seconds;
  if (left.empty())
    return date;
  if (!left.take('T') && !left.take(' '))
    return std::nullopt;
  const auto time = take_time(left, date);
  if (!time)
    return std::nullopt;
  left.take(' ');
  const auto offset = take_offset(left);
  if (!offset || !left.empty())
    return std::nullopt;
  date.seconds += *time - *offset;
  return date;
}

float years_of(const ReadDate& date) {
  return static_cast<float>(date.seconds / (365.25 * day_seconds));
}

CirclePlace on_circle(uint32_t at, uint32_t around) {
  if (around == 7)
    return {sines_7[at], cosines_7[at]};
  const auto place = at * (24 / around);
  return {sines_24[place], sines_24[(place + 6) % 24]};
}

} // namespace troupe

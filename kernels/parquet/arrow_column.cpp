#include "kernels/parquet/arrow_column.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace troupe::parquet {

namespace {

constexpr int64_t seconds_a_day = 86'400;

/// Whether a value is there, by the bits of an array.
bool has_bit(const void* bits, int64_t place) {
  const auto byte =
    static_cast<const uint8_t*>(bits)[static_cast<uint64_t>(place) / 8];
  return (byte >> (static_cast<uint64_t>(place) % 8) & 1) != 0;
}

bool is_missing_in(const ArrowArray& array, int64_t row) {
  return array.n_buffers > 0 && array.null_count != 0
         && array.buffers[0] != nullptr
         && !has_bit(array.buffers[0], array.offset + row);
}

int64_t floor_of(int64_t value, int64_t unit) {
  return value / unit - (value % unit < 0 ? 1 : 0);
}

void append(std::string& out, int64_t value, size_t min_digits) {
  const auto digits = std::to_string(value);
  if (digits.size() < min_digits)
    out.append(min_digits - digits.size(), '0');
  out += digits;
}

} // namespace

ArrowColumn::Kind ArrowColumn::kind_of(std::string_view format) {
  constexpr std::pair<std::string_view, Kind> kinds[]{
    {"n", Kind::nothing},     {"b", Kind::boolean},
    {"c", Kind::int8},        {"C", Kind::uint8},
    {"s", Kind::int16},       {"S", Kind::uint16},
    {"i", Kind::int32},       {"I", Kind::uint32},
    {"l", Kind::int64},       {"L", Kind::uint64},
    {"f", Kind::float32},     {"g", Kind::float64},
    {"u", Kind::text},        {"z", Kind::text},
    {"U", Kind::large_text},  {"Z", Kind::large_text},
    {"tdD", Kind::date_days}, {"tdm", Kind::date_milliseconds},
    {"tts", Kind::time32},    {"ttm", Kind::time32},
    {"ttu", Kind::time64},    {"ttn", Kind::time64}};
  for (const auto& [known, kind] : kinds)
    if (format == known)
      return kind;
  // Units are looked at in learn_unit.
  if (format.size() > 3 && format.starts_with("ts") && format[3] == ':')
    return Kind::timestamp;
  // d:PRECISION,SCALE; what has other than 128 bits says so.
  if (format.starts_with("d:")
      && std::count(format.begin(), format.end(), ',') == 1)
    return Kind::decimal;
  return Kind::strange;
}

ArrowColumn::ArrowColumn(const ArrowSchema& schema) {
  by_dictionary_ = schema.dictionary != nullptr;
  kind_ = kind_of(schema.format);
  const std::string_view format{by_dictionary_ ? schema.dictionary->format
                                               : schema.format};
  values_ = kind_of(format);
  if (by_dictionary_
      && (kind_ < Kind::int8 || kind_ > Kind::uint64
          || schema.dictionary->dictionary != nullptr))
    kind_ = Kind::strange;
  if (values_ == Kind::strange)
    kind_ = Kind::strange;
  learn_unit(format);
}

void ArrowColumn::learn_unit(std::string_view format) {
  switch (values_) {
    case Kind::date_milliseconds:
      per_second_ = 1000;
      break;
    case Kind::time32:
    case Kind::time64:
    case Kind::timestamp:
      per_second_ = format[2] == 's'   ? 1
                    : format[2] == 'm' ? 1000
                    : format[2] == 'u' ? 1'000'000
                                       : 1'000'000'000;
      is_utc_ = values_ == Kind::timestamp && format.size() > 4;
      break;
    case Kind::decimal:
      format.remove_prefix(format.find(',') + 1);
      std::from_chars(format.data(), format.data() + format.size(), scale_);
      if (scale_ < -38 || scale_ > 38)
        kind_ = Kind::strange;
      break;
    default:
      break;
  }
}

void ArrowColumn::take(const ArrowArray& array) {
  indices_ = &array;
  array_ = by_dictionary_ ? array.dictionary : &array;
  reals_.clear();
  if (by_dictionary_)
    return;
  switch (values_) {
    case Kind::int8:
      return widen<int8_t>();
    case Kind::uint8:
      return widen<uint8_t>();
    case Kind::int16:
      return widen<int16_t>();
    case Kind::uint16:
      return widen<uint16_t>();
    case Kind::int32:
      return widen<int32_t>();
    case Kind::uint32:
      return widen<uint32_t>();
    case Kind::int64:
      return widen<int64_t>();
    case Kind::uint64:
      return widen<uint64_t>();
    case Kind::float32:
      return widen<float>();
    case Kind::float64:
      return widen<double>();
    default:
      return;
  }
}

template <class T>
void ArrowColumn::widen() {
  const auto rows = static_cast<size_t>(array_->length);
  const auto* values = static_cast<const T*>(array_->buffers[1])
                       + array_->offset;
  reals_.resize(rows);
  for (size_t i = 0; i < rows; ++i)
    reals_[i] = static_cast<double>(values[i]);
  if (array_->null_count == 0 || array_->buffers[0] == nullptr)
    return;
  for (size_t i = 0; i < rows; ++i)
    if (is_missing_in(*array_, static_cast<int64_t>(i)))
      reals_[i] = std::numeric_limits<double>::quiet_NaN();
}

template <class T>
T ArrowColumn::value(int64_t row) const {
  return static_cast<const T*>(array_->buffers[1])[array_->offset + row];
}

/// Where the dictionary has a row's value.
int64_t ArrowColumn::index(int64_t row) const {
  if (!by_dictionary_)
    return row;
  const auto at = indices_->offset + row;
  const auto* all = indices_->buffers[1];
  switch (kind_) {
    case Kind::int8:
      return static_cast<const int8_t*>(all)[at];
    case Kind::uint8:
      return static_cast<const uint8_t*>(all)[at];
    case Kind::int16:
      return static_cast<const int16_t*>(all)[at];
    case Kind::uint16:
      return static_cast<const uint16_t*>(all)[at];
    case Kind::int32:
      return static_cast<const int32_t*>(all)[at];
    case Kind::uint32:
      return static_cast<const uint32_t*>(all)[at];
    default:
      return static_cast<const int64_t*>(all)[at];
  }
}

bool ArrowColumn::is_missing(int64_t row) const {
  if (values_ == Kind::nothing || is_missing_in(*indices_, row))
    return true;
  if (!by_dictionary_)
    return false;
  const auto at = index(row);
  return at < 0 || at >= array_->length || is_missing_in(*array_, at);
}

template <class T>
std::string_view ArrowColumn::digits(T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(value))
      return {};
  std::array<char, 48> room; // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto end =
    std::to_chars(room.data(), room.data() + room.size(), value).ptr;
  out_.assign(room.data(), end);
  return out_;
}

template <class Offset>
std::string_view ArrowColumn::bytes(int64_t row) const {
  const auto* offsets = static_cast<const Offset*>(array_->buffers[1])
                        + array_->offset + row;
  const auto* all = static_cast<const char*>(array_->buffers[2]);
  if (offsets[1] <= offsets[0])
    return {};
  return {all + offsets[0], static_cast<size_t>(offsets[1] - offsets[0])};
}

void ArrowColumn::write_date(int64_t days) {
  namespace chrono = std::chrono;
  // The calendar of the library has the years of 16 bits.
  constexpr int64_t max_days = 11'000'000;
  if (days < -max_days || days > max_days) {
    out_ += "a date of a year with more than four digits";
    return;
  }
  const chrono::year_month_day date{
    chrono::sys_days{chrono::days{static_cast<int>(days)}}};
  append(out_, int{date.year()}, 4);
  out_ += '-';
  append(out_, unsigned{date.month()}, 2);
  out_ += '-';
  append(out_, unsigned{date.day()}, 2);
}

void ArrowColumn::write_time(int64_t within_day) {
  const auto seconds = within_day / per_second_;
  append(out_, seconds / 3600, 2);
  out_ += ':';
  append(out_, seconds / 60 % 60, 2);
  out_ += ':';
  append(out_, seconds % 60, 2);
  auto rest = within_day % per_second_;
  if (rest == 0)
    return;
  size_t places = 0;
  for (auto unit = per_second_; unit > 1; unit /= 10)
    ++places;
  for (; rest % 10 == 0; rest /= 10)
    --places;
  out_ += '.';
  append(out_, rest, places);
}

/// A decimal of 128 bits: a whole number and where its point is.
std::string_view ArrowColumn::decimal(int64_t row) {
  // The compiler's own type: ISO C++ has none of 128 bits.
  __extension__ using Wide = unsigned __int128;
  Wide left = 0;
  std::memcpy(&left,
              static_cast<const char*>(array_->buffers[1])
                + (array_->offset + row) * int64_t{sizeof left},
              sizeof left);
  const bool negative = left >> 127 != 0;
  if (negative)
    left = ~left + 1;
  std::string turned;
  for (int place = 0; left != 0 || place <= std::max(0, scale_);
       ++place, left /= 10) {
    if (place == scale_ && scale_ > 0)
      turned += '.';
    turned += static_cast<char>('0' + static_cast<int>(left % 10));
  }
  out_.assign(negative ? "-" : "");
  out_.append(turned.rbegin(), turned.rend());
  if (scale_ < 0)
    out_.append(static_cast<size_t>(-scale_), '0');
  return out_;
}

std::string_view ArrowColumn::text(int64_t row) {
  if (is_missing(row))
    return {};
  row = index(row);
  out_.clear();
  switch (values_) {
    case Kind::boolean:
      return has_bit(array_->buffers[1], array_->offset + row) ? "true"
                                                               : "false";
    case Kind::int8:
      return digits(value<int8_t>(row));
    case Kind::uint8:
      return digits(value<uint8_t>(row));
    case Kind::int16:
      return digits(value<int16_t>(row));
    case Kind::uint16:
      return digits(value<uint16_t>(row));
    case Kind::int32:
      return digits(value<int32_t>(row));
    case Kind::uint32:
      return digits(value<uint32_t>(row));
    case Kind::int64:
      return digits(value<int64_t>(row));
    case Kind::uint64:
      return digits(value<uint64_t>(row));
    case Kind::float32:
      return digits(value<float>(row));
    case Kind::float64:
      return digits(value<double>(row));
    case Kind::text:
      return bytes<int32_t>(row);
    case Kind::large_text:
      return bytes<int64_t>(row);
    case Kind::date_days:
      write_date(value<int32_t>(row));
      return out_;
    case Kind::date_milliseconds:
      write_date(floor_of(value<int64_t>(row), seconds_a_day * per_second_));
      return out_;
    case Kind::time32:
      write_time(value<int32_t>(row));
      return out_;
    case Kind::time64:
      write_time(value<int64_t>(row));
      return out_;
    case Kind::timestamp: {
      const auto day = seconds_a_day * per_second_;
      const auto at = value<int64_t>(row);
      const auto days = floor_of(at, day);
      write_date(days);
      out_ += ' ';
      write_time(at - days * day);
      out_ += is_utc_ ? "Z" : "";
      return out_;
    }
    case Kind::decimal:
      return decimal(row);
    case Kind::strange:
    case Kind::nothing:
      break;
  }
  return {};
}

/// Of truths, and by a dictionary.
std::optional<double> ArrowColumn::looked_up_real(int64_t row) const {
  if (is_missing(row))
    return {};
  row = index(row);
  const auto finite = [](double x) {
    return std::isfinite(x) ? std::optional{x} : std::nullopt;
  };
  switch (values_) {
    case Kind::boolean:
      return has_bit(array_->buffers[1], array_->offset + row) ? 1 : 0;
    case Kind::int8:
      return value<int8_t>(row);
    case Kind::uint8:
      return value<uint8_t>(row);
    case Kind::int16:
      return value<int16_t>(row);
    case Kind::uint16:
      return value<uint16_t>(row);
    case Kind::int32:
      return value<int32_t>(row);
    case Kind::uint32:
      return value<uint32_t>(row);
    case Kind::int64:
      return static_cast<double>(value<int64_t>(row));
    case Kind::uint64:
      return static_cast<double>(value<uint64_t>(row));
    case Kind::float32:
      return finite(value<float>(row));
    case Kind::float64:
      return finite(value<double>(row));
    default:
      return {};
  }
}

} // namespace troupe::parquet

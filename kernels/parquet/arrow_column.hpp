#pragma once

#include "kernels/parquet/arrow_abi.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::parquet {

/// The values of a column, one by one, as a table of text would have them.
/// Read are booleans, whole and floating numbers, decimals, dates, times of a
/// day and of a date, text, and any of them by a dictionary.
class ArrowColumn {
public:
  ArrowColumn() = default;
  /// Of a column's entry in the schema.
  explicit ArrowColumn(const ArrowSchema& schema);

  bool is_readable() const { return kind_ != Kind::strange; }
  /// Takes some rows, which live as long as they are asked for.
  void take(const ArrowArray& array);

  /// What a row holds as text: empty where it is missing or not a number (NaN),
  /// numbers with as many digits as tell them apart, dates as 2024-02-29,
  /// times of a date as 2024-02-29 13:45:07.5, with a Z where they are UTC.
  /// Valid until the next call.
  std::string_view text(int64_t row);
  /// The finite number that a row holds, of booleans 0 or 1; nothing where it
  /// holds none, or one that is known by its text alone.
  std::optional<double> real(int64_t row) const {
    if (reals_.empty())
      return looked_up_real(row);
    const auto value = reals_[static_cast<size_t>(row)];
    return std::isfinite(value) ? std::optional{value} : std::nullopt;
  }

private:
  enum class Kind : uint8_t {
    strange,
    nothing,
    boolean,
    int8,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64,
    uint64,
    float32,
    float64,
    text,
    large_text,
    date_days,
    date_milliseconds,
    time32,
    time64,
    timestamp,
    decimal,
  };

  static Kind kind_of(std::string_view format);
  void learn_unit(std::string_view format);
  bool is_missing(int64_t row) const;
  std::optional<double> looked_up_real(int64_t row) const;
  template <class T>
  void widen();
  template <class T>
  T value(int64_t row) const;
  int64_t index(int64_t row) const;
  template <class T>
  std::string_view digits(T value);
  template <class Offset>
  std::string_view bytes(int64_t row) const;
  void write_date(int64_t days);
  void write_time(int64_t within_day);
  std::string_view decimal(int64_t row);

  Kind kind_ = Kind::strange;
  Kind values_ = Kind::strange; ///< of the dictionary, where there is one
  bool by_dictionary_ = false;
  bool is_utc_ = false;
  int64_t per_second_ = 1; ///< units of a time
  int scale_ = 0;          ///< of decimals
  const ArrowArray* indices_ = nullptr;
  const ArrowArray* array_ = nullptr; ///< the values
  /// Of numbers without a dictionary all of them, not finite where one is
  /// missing.
  std::vector<double> reals_;
  std::string out_;
};

} // namespace troupe::parquet

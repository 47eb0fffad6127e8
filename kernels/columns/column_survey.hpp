#pragma once

#include "kernels/columns/column_rule.hpp"
#include "kernels/columns/missing_texts.hpp"
#include "kernels/columns/value_index.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// What a pass over a column finds, in bounded memory.
class ColumnSurvey {
public:
  explicit ColumnSurvey(std::string name) : name_(std::move(name)) {}

  /// Takes a field without spaces around it. `may_count`: whether a value that
  /// is new may be remembered.
  void add(std::string_view text, const MissingTexts& missing, bool may_count);

  /// What the column seems to be. `label`: whether it is the label.
  ColumnRule proposal(bool label) const;

  /// Where nearly all are numbers: the texts that are none, if they are few.
  std::vector<std::string> strays() const;
  /// From here on those are missing.
  void pass_over_strays();
  /// Whether it holds that text, as far as its values are remembered.
  bool has(std::string_view text) const { return values_.has(text); }

  /// Where all would be numbers with points for commas: one of them; else
  /// empty.
  std::string with_comma() const;

  const std::string& name() const { return name_; }
  uint64_t rows() const { return rows_; }
  uint64_t missing() const { return missing_; }
  bool all_numbers() const { return present() > 0 && numbers_ == present(); }
  double min() const { return min_; } ///< of numbers, so mean and max
  double max() const { return max_; }
  double mean() const { return sum_ / static_cast<double>(numbers_); }
  double deviation() const;
  /// Different values; where more_values(), at least so many.
  uint64_t values() const { return values_.size(); }
  bool more_values() const { return more_; }
  std::vector<std::string> examples() const; ///< three at most

private:
  uint64_t present() const { return rows_ - missing_; }
  uint64_t seen_once() const;
  bool names_ids() const;
  bool needs_scale() const;

  std::string name_;
  uint64_t rows_ = 0;
  uint64_t missing_ = 0;
  uint64_t numbers_ = 0;
  uint64_t whole_ = 0;
  uint64_t dates_[3]{}; ///< by form: ymd, dmy, mdy
  uint64_t times_ = 0;  ///< with a time of day
  uint64_t commas_ = 0; ///< that would be numbers with a point
  std::string comma_;   ///< the first of those
  double min_ = 0;
  double max_ = 0;
  double sum_ = 0;
  double squares_ = 0; ///< of the distances from the first number
  double first_ = 0;
  ValueIndex values_;
  std::vector<uint32_t> counts_;   ///< of the values
  std::vector<std::string> texts_; ///< no numbers; one more than few at most
  bool more_ = false;
};

} // namespace troupe

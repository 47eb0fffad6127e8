#pragma once

#include "kernels/columns/column_rule.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What the training part made of a column.
struct FittedColumn {
  ColumnRule rule;
  float fill = 0; ///< in place of a missing number or date
  /// Known values, or classes, in the order of their bytes.
  std::vector<std::string> values;
  float mean = 0; ///< of a target that is scaled
  float deviation = 1;

  bool operator==(const FittedColumn&) const = default;

  /// How many ids a column of ids has, those of missing and unknown values
  /// included.
  uint64_t ids() const;
  /// The id of a value, or the class of a label (-1: it has none).
  int32_t id_of(std::string_view text) const;
  int32_t class_of(std::string_view text) const;
};

/// How the columns of a table become features, ids and labels, or what the
/// training part decided of other data: what weights that were trained on them
/// need with them.
struct FittedColumns {
  std::vector<FittedColumn> columns; ///< in the order of the rules
  std::string given;                 ///< columns= as it was typed
  /// Other keys of the data specification that say how to read: na, sep, …
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<float> mean;              ///< of scale=standard
  std::vector<float> inverse_deviation; ///< [features] each, or empty
  /// Of text:FILE by characters: the code points that occur, ascending; an id
  /// is a place among them.
  std::vector<int32_t> characters;
  /// Of text:FILE?tokenizer=: Tokenizer::json().
  std::string tokenizer;

  /// Whether it is of a table whose columns= say what they are.
  bool of_table() const { return !columns.empty(); }
  bool of_text() const { return !characters.empty() || !tokenizer.empty(); }
  bool operator==(const FittedColumns&) const = default;

  std::vector<ColumnRule> rules() const;
  /// The classes' texts; empty where a number is learned.
  const std::vector<std::string>& classes() const;
  /// Makes numbers that a model gave those of the target's column.
  void unscale(std::vector<float>& numbers) const;
};

/// The first column, in order, whose ids or classes do not stand for the same
/// values in both; empty: there is none.
std::string other_values(const FittedColumns& a, const FittedColumns& b);

/// Features of scale=standard whose statistics are kept with weights at most:
/// a file's header may not be larger than 100 MB.
constexpr uint64_t max_kept_features = 1'000'000;

/// Bytes that they take at most with weights, as a text within JSON.
uint64_t kept_bytes(const FittedColumns& columns);

/// One line of JSON in UTF-8, whatever bytes values have.
std::string to_json(const FittedColumns& columns);

/// Errors: InputError naming `path` (no such JSON, values or characters that
/// are not in order or too many).
FittedColumns fitted_columns_from_json(const std::string& text,
                                       const std::string& path);

} // namespace troupe

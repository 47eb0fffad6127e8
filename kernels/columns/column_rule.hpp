#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class ColumnKind : uint8_t {
  number,   ///< a feature
  category, ///< an id
  id,       ///< the same, of users or items: more values are expected
  date,     ///< a feature, and a pair for each cycle
  label,    ///< a class, by its text
  target,   ///< a number to learn
  ignore,
};

/// What stands for a number or date that is missing.
enum class MissingRule : uint8_t {
  mean,   ///< that of the training part
  median, ///< the same
  flag,   ///< the mean, and one more feature that is 1 there, else 0
  value,  ///< the one that the rule gives
  refuse, ///< none: it is a mistake of the file
};

enum class DateForm : uint8_t { ymd, dmy, mdy, unix_seconds };

/// What a column of a table is: NAME:KIND[:KEY=VALUE…].
struct ColumnRule {
  /// The header's, or the index from 0 where there is none; "*": all that no
  /// other rule names.
  std::string name;
  ColumnKind kind = ColumnKind::ignore;
  MissingRule missing = MissingRule::mean; ///< number, date
  float fill = 0;                          ///< of MissingRule::value
  uint64_t min_count = 1;  ///< samples that a value is in, to be known
  uint64_t max_values = 0; ///< that the file may have; 0: the kind's own
  uint64_t buckets = 0;    ///< ids by hash; 0: by vocabulary
  DateForm form = DateForm::ymd;
  bool weekday = false; ///< cycles of a date
  bool hour = false;
  bool month = false;
  /// Of a target: what is learned is its distance from the training part's
  /// mean, in standard deviations.
  bool scaled = false;

  bool operator==(const ColumnRule&) const = default;

  bool is_label() const {
    return kind == ColumnKind::label || kind == ColumnKind::target;
  }
  bool has_id() const {
    return kind == ColumnKind::category || kind == ColumnKind::id;
  }
  /// Whether values are known by their texts.
  bool has_vocabulary() const {
    return kind == ColumnKind::label || (has_id() && buckets == 0);
  }
  bool has_feature() const {
    return kind == ColumnKind::number || kind == ColumnKind::date;
  }
  size_t features() const; ///< that the column makes
  /// Values of a column with a vocabulary that one file may have.
  uint64_t value_limit() const;
};

/// Ids of a column by vocabulary or hash: 0 is a missing value; by vocabulary 1
/// is one that is not known, and known ones follow.
constexpr int32_t missing_id = 0;
constexpr int32_t unknown_id = 1;
constexpr int32_t first_known_id = 2;

/// Bytes of what all vocabularies of a table together take with weights, whose
/// header may not be larger than 100 MB.
constexpr uint64_t max_vocabulary_bytes = 80'000'000;

/// Reads rules that commas separate. In names %2C is a comma, %3A a colon, %26
/// &, %3F ?, %25 %; any byte may be written so.
/// Errors: UsageError, what is wrong and what to do.
std::vector<ColumnRule> parse_column_rules(std::string_view text);

/// One of them.
ColumnRule parse_column_rule(std::string_view text);

/// Rules as parse_column_rules reads them, one after another.
std::string to_text(const std::vector<ColumnRule>& rules);
std::string to_text(const ColumnRule& rule);

/// Reads rules from a file, one a line; blank lines and what begins with # are
/// skipped, and names may hold commas.
/// Errors: InputError with file and line.
std::vector<ColumnRule> read_column_rules(const std::string& path);

/// Of rules that need not name all columns. Errors: UsageError (a name twice,
/// several labels).
void check_some_column_rules(const std::vector<ColumnRule>& rules);
/// Errors: UsageError, besides (no label, nothing to learn from).
void check_column_rules(const std::vector<ColumnRule>& rules);

/// Text with %XX for each byte that `kept` does not take.
std::string escaped_text(std::string_view text,
                         const std::function<bool(char)>& kept);
/// Text without escapes. Errors: UsageError (a % without two digits).
std::string unescaped_text(std::string_view text);

} // namespace troupe

#include "kernels/data/table_data.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/columns/dates.hpp"
#include "kernels/columns/missing_texts.hpp"
#include "kernels/data/csv_options.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/table_groups.hpp"
#include "kernels/data/table_rows.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/text_hash.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace troupe {

namespace {

constexpr auto missing_number = std::numeric_limits<float>::quiet_NaN();

MissingTexts missing_texts_of(const DataSpec& spec) {
  const auto list = option(spec, "na");
  return list ? MissingTexts{*list} : MissingTexts{};
}

std::string too_many(const ColumnRule& rule) {
  return "column " + in_quotes(rule.name) + " has more than "
         + std::to_string(rule.value_limit()) + " different values";
}

std::string advice_on_many(const ColumnRule& rule) {
  return rule.kind == ColumnKind::label
           ? "make a number to learn a target"
           : "give it max_values=, buckets= for a hash, or ignore it";
}

void add_feature_names(const ColumnRule& rule,
                       std::vector<std::string>& names) {
  if (!rule.has_feature())
    return;
  names.push_back(rule.name);
  if (rule.missing == MissingRule::flag)
    names.push_back(rule.name + " missing");
  for (const auto& [wanted, cycle] :
       {std::pair{rule.weekday, " weekday"}, std::pair{rule.hour, " hour"},
        std::pair{rule.month, " month"}})
    if (wanted)
      for (const auto* part : {" sine", " cosine"})
        names.push_back(rule.name + cycle + part);
}

/// Where the columns of a file are, by name.
class ColumnPlaces {
public:
  static constexpr size_t nowhere = std::numeric_limits<size_t>::max();
  static constexpr size_t several = nowhere - 1;

  explicit ColumnPlaces(const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i)
      if (const auto [at, is_new] = places_.emplace(names[i], i); !is_new)
        at->second = several;
  }

  size_t find(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nowhere : found->second;
  }

private:
  std::unordered_map<std::string_view, size_t> places_;
};

/// The name that was meant; a header may hold anything.
std::string name_like(const std::string& wanted,
                      const std::vector<std::string>& names) {
  constexpr size_t max_names = 1000;
  constexpr size_t longest = 100;
  std::vector<std::string> known;
  for (const auto& name : names)
    if (name.size() <= longest && known.size() < max_names)
      known.push_back(name);
  return wanted.size() <= longest ? nearest(wanted, known) : std::string{};
}

/// Makes samples of rows, column by column as the rules say.
class RuledTable {
public:
  RuledTable(const DataSpec& spec, const ReadLimits& limits,
             const TablePart* part)
    : spec_(spec),
      header_(csv_has_header(spec)),
      unlabelled_(limits.unlabelled),
      memory_(limits.memory),
      missing_(missing_texts_of(spec)),
      given_(column_rules_of(spec)),
      rows_(spec, limits.store, part),
      expected_(part != nullptr ? part->rows : 0) {}

  Dataset read() {
    rows_.read(*this);
    if (samples_ == 0)
      throw InputError(spec_.where
                       + ": holds no samples; is it the right file?");
    out_.name = spec_.kind + ":" + spec_.where;
    out_.values = std::move(values_);
    if (features_ > 0)
      out_.shape.features = {features_};
    out_.shape.ids = static_cast<uint32_t>(ids_);
    for (const auto& rule : table_->rules) {
      add_feature_names(rule, out_.columns);
      if (rule.kind == ColumnKind::target)
        out_.shape.label = LabelKind::number;
    }
    out_.labelled = labelled_ && !blank_;
    out_.table = std::move(table_);
    return std::move(out_);
  }

  // --- for TableRows --------------------------------------------------------

  /// Learns where each column is.
  bool begin_file(const TextRow& first) {
    width_ = first.size();
    if (header_)
      rows_.check_names(first);
    std::vector<std::string> names;
    for (size_t i = 0; i < width_; ++i)
      names.push_back(header_ ? std::string{trimmed(first[i])}
                              : std::to_string(i));
    if (!table_) {
      table_ = std::make_shared<TableColumns>();
      table_->rules = spread_rules(given_, names);
      table_->values.resize(table_->rules.size());
      for (const auto& rule : table_->rules) {
        features_ += rule.features();
        ids_ += rule.has_id() ? 1 : 0;
      }
      if (features_ + ids_ == 0)
        rows_.refuse("has no column to learn from",
                     "give columns= more than the label");
      make_room(values_, expected_ * features_, rows_.path());
      make_room(out_.ids, expected_ * ids_, rows_.path());
    }
    places_.clear();
    const ColumnPlaces places{names};
    for (const auto& rule : table_->rules)
      places_.push_back(place_of(rule, places, names));
    return header_;
  }

  bool uses(size_t field) const {
    return std::ranges::find(places_, field) != places_.end();
  }

  template <class Row>
  void add(const Row& row) {
    rows_.check_width(row.size(), width_);
    make_room(values_, features_, rows_.path());
    make_room(out_.ids, ids_, rows_.path());
    check_held(
      spec_, values_.size() * sizeof(float) + out_.ids.size() * sizeof(int32_t),
      memory_);
    make_room(out_.labels, 1, rows_.path());
    make_room(out_.targets, 1, rows_.path());
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto& rule = table_->rules[i];
      const auto place = places_[i];
      const bool is_there = place != ColumnPlaces::nowhere;
      if (is_there && is_number(rule))
        if (const auto known = float32_of(known_real(row, place))) {
          add_known(*known, rule);
          continue;
        }
      const auto text = is_there ? trimmed(row[place]) : std::string_view{};
      switch (rule.kind) {
        case ColumnKind::number:
          add_number(text, rule);
          break;
        case ColumnKind::date:
          add_date(text, rule);
          break;
        case ColumnKind::category:
        case ColumnKind::id:
          add_id(text, rule, table_->values[i]);
          break;
        case ColumnKind::label:
        case ColumnKind::target:
          add_label(text, rule, table_->values[i]);
          break;
        case ColumnKind::ignore:
          break;
      }
    }
    ++samples_;
  }

private:
  size_t place_of(const ColumnRule& rule, const ColumnPlaces& places,
                  const std::vector<std::string>& names) {
    const auto place = places.find(rule.name);
    if (place == ColumnPlaces::several)
      rows_.refuse("has several columns " + in_quotes(rule.name),
                   "call all but one of them otherwise");
    if (place == ColumnPlaces::nowhere) {
      if (rule.is_label() && unlabelled_ && (samples_ == 0 || !labelled_)) {
        labelled_ = false;
        return place;
      }
      const auto near = name_like(rule.name, names);
      rows_.refuse("has no column " + in_quotes(rule.name)
                     + (rule.is_label() ? ", which is the label" : ""),
                   !header_ ? "columns have indices from 0 to "
                                + std::to_string(names.size() - 1)
                                + " here; or add header=true"
                   : near.empty()
                     ? std::string{"columns= names it"}
                         + (rows_.is_parquet() ? ""
                                               : "; is the first line the "
                                                 "header?")
                     : "did you mean " + in_quotes(near) + "?");
    }
    if (rule.is_label() && !labelled_)
      rows_.refuse("has a label, and a file before it none",
                   "take files of the same columns");
    return place;
  }

  /// The feature, and whether it is missing where that is one, too.
  void add_value(float value, const ColumnRule& rule) {
    values_.push_back(value);
    if (rule.missing == MissingRule::flag)
      values_.push_back(std::isnan(value) ? 1.0f : 0.0f);
  }

  static bool is_number(const ColumnRule& rule) {
    return rule.kind == ColumnKind::number || rule.kind == ColumnKind::target;
  }

  void add_known(float value, const ColumnRule& rule) {
    if (rule.kind == ColumnKind::target)
      out_.targets.push_back(value);
    else
      add_value(value, rule);
  }

  void add_number(std::string_view text, const ColumnRule& rule) {
    if (missing_.has(text)) {
      if (rule.missing == MissingRule::refuse)
        refuse_gap(text, rule);
      add_value(missing_number, rule);
      return;
    }
    add_value(number(text, rule), rule);
  }

  float number(std::string_view text, const ColumnRule& rule) const {
    const auto value = parse_float32(text);
    if (!value)
      rows_.refuse_number(text, in_quotes(rule.name),
                          rule.kind == ColumnKind::target
                            ? "mend it, or make the column a label"
                            : "make it a category, or add na= with what means "
                              "that it is missing");
    return *value;
  }

  void add_date(std::string_view text, const ColumnRule& rule) {
    const bool missing = missing_.has(text);
    if (missing && rule.missing == MissingRule::refuse)
      refuse_gap(text, rule);
    const auto date = missing ? std::nullopt : parse_date(text, rule.form);
    if (!missing && !date)
      rows_.refuse("column " + in_quotes(rule.name) + " holds "
                     + in_quotes(text) + ", no date of its form",
                   "give form=ymd, dmy, mdy or unix, or mend it");
    add_value(date ? years_of(*date) : missing_number, rule);
    const auto cycle = [&](bool wanted, uint32_t at, uint32_t around) {
      if (!wanted)
        return;
      const auto place = date ? on_circle(at, around) : CirclePlace{0, 0};
      values_.push_back(place.sine);
      values_.push_back(place.cosine);
    };
    cycle(rule.weekday, date ? date->weekday : 0, 7);
    cycle(rule.hour, date ? date->hour : 0, 24);
    cycle(rule.month, date ? date->month : 0, 12);
  }

  void add_id(std::string_view text, const ColumnRule& rule,
              ValueIndex& values) {
    if (missing_.has(text))
      out_.ids.push_back(missing_id);
    else if (rule.buckets > 0)
      out_.ids.push_back(static_cast<int32_t>(
        1 + kernels::text_hash(text) % (rule.buckets - 1)));
    else
      out_.ids.push_back(1 + number_of(text, rule, values));
  }

  int32_t number_of(std::string_view text, const ColumnRule& rule,
                    ValueIndex& values) const {
    const auto number = values.add(text);
    if (number >= rule.value_limit())
      rows_.refuse(too_many(rule), advice_on_many(rule));
    return static_cast<int32_t>(number);
  }

  void add_label(std::string_view text, const ColumnRule& rule,
                 ValueIndex& values) {
    const bool known = labelled_ && !missing_.has(text);
    if (labelled_ && !known && !unlabelled_)
      refuse_gap(text, rule);
    blank_ = blank_ || !known;
    if (rule.kind == ColumnKind::target)
      out_.targets.push_back(known ? number(text, rule) : 0.0f);
    else
      out_.labels.push_back(known ? number_of(text, rule, values) : 0);
  }

  [[noreturn]] void refuse_gap(std::string_view text,
                               const ColumnRule& rule) const {
    rows_.refuse("column " + in_quotes(rule.name) + " holds " + in_quotes(text)
                   + ", which is no value",
                 "fill the gap or remove the line");
  }

  const DataSpec& spec_;
  bool header_;
  bool unlabelled_; ///< a file, or a row, may lack the label
  std::optional<uint64_t> memory_;
  MissingTexts missing_;
  std::vector<ColumnRule> given_;
  TableRows rows_;
  uint64_t expected_; ///< rows; 0: it is not known how many
  std::shared_ptr<TableColumns> table_;
  size_t width_ = 0;
  std::vector<size_t> places_; ///< fields of the columns
  size_t features_ = 0;
  size_t ids_ = 0;
  uint64_t samples_ = 0;
  bool labelled_ = true;
  bool blank_ = false; ///< a label is
  std::vector<float> values_;
  Dataset out_;
};

/// What the samples to train on say of a column.
struct ColumnSums {
  double sum = 0;
  uint64_t count = 0;           ///< of numbers
  std::vector<float> all;       ///< of a median
  ValueIndex values;            ///< of ids, where parts number their own
  std::vector<uint64_t> counts; ///< of ids, by number
};

/// Calls use(i) for some of the samples, or, without `rows`, for all of them.
template <class Use>
void for_rows(const Dataset& part, const std::vector<uint64_t>* rows,
              const Use& use) {
  if (rows != nullptr)
    for (const auto row : *rows)
      use(row);
  else
    for (uint64_t i = 0, samples = part.samples(); i < samples; ++i)
      use(i);
}

void add_numbers(const ColumnRule& rule, const Dataset& part,
                 const std::vector<uint64_t>* rows, size_t feature,
                 ColumnSums& sums) {
  if (rule.missing == MissingRule::value)
    return;
  const auto width = part.features();
  const auto* values = part.values.data() + feature;
  for_rows(part, rows, [&](uint64_t i) {
    const auto value = values[i * width];
    if (std::isnan(value))
      return;
    sums.sum += value;
    ++sums.count;
    if (rule.missing == MissingRule::median)
      sums.all.push_back(value);
  });
}

/// `merges`: other parts number the texts of theirs otherwise.
void add_ids(const ColumnRule& rule, const Dataset& part,
             const std::vector<uint64_t>* rows, size_t id,
             const ValueIndex& values, bool merges, ColumnSums& sums) {
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; merges && i < values.size(); ++i)
    numbers.push_back(static_cast<uint32_t>(
      add_value(rule, values.text(i), sums.values, part.name)));
  sums.counts.resize(merges ? sums.values.size() : values.size());
  const auto width = part.shape.ids;
  for_rows(part, rows, [&](uint64_t i) {
    const auto found = part.ids[i * width + id];
    if (found == missing_id)
      return;
    const auto number = static_cast<size_t>(found) - 1;
    ++sums.counts[merges ? numbers[number] : number];
  });
}

void add_part(const Dataset& part, const std::vector<uint64_t>* rows,
              bool merges, std::vector<ColumnSums>& sums) {
  const auto& table = *part.table;
  size_t feature = 0;
  size_t id = 0;
  for (size_t i = 0; i < table.rules.size(); ++i) {
    const auto& rule = table.rules[i];
    if (rule.has_feature())
      add_numbers(rule, part, rows, feature, sums[i]);
    if (rule.has_id() && rule.has_vocabulary())
      add_ids(rule, part, rows, id, table.values[i], merges, sums[i]);
    feature += rule.features();
    id += rule.has_id() ? 1 : 0;
  }
}

/// A median is of all numbers, which have to be held.
void check_medians(const Dataset& train, uint64_t memory) {
  uint64_t medians = 0;
  for (const auto& rule : train.table->rules)
    medians += rule.has_feature() && rule.missing == MissingRule::median;
  if (medians * train.samples() * sizeof(float) > memory)
    throw InputError(train.name + ": the numbers of " + std::to_string(medians)
                     + " columns with missing=median are more than "
                       "--data-memory; give missing=mean, or raise it");
}

std::vector<ColumnSums> sums_of(const Dataset& train) {
  const auto& table = *train.table;
  std::vector<ColumnSums> sums(table.rules.size());
  if (!table.groups) {
    add_part(train, nullptr, false, sums);
    return sums;
  }
  check_medians(train, table.groups->memory());
  table.groups->for_parts(train, [&](const Dataset& part,
                                     const std::vector<uint64_t>& rows) {
    add_part(part, &rows, true, sums);
  });
  return sums;
}

/// What stands for the missing values of a feature.
float fill_of(const ColumnRule& rule, ColumnSums& sums) {
  if (rule.missing == MissingRule::value)
    return rule.fill;
  auto& all = sums.all;
  const auto count = sums.count;
  if (count == 0)
    return 0;
  if (rule.missing != MissingRule::median)
    return static_cast<float>(sums.sum / static_cast<double>(count));
  const auto middle = all.begin() + static_cast<ptrdiff_t>(count / 2);
  std::nth_element(all.begin(), middle, all.end());
  if (count % 2 == 1)
    return *middle;
  const double below = *std::max_element(all.begin(), middle);
  return static_cast<float>((below + *middle) / 2);
}

/// Mean and deviation of the numbers to learn; those of equal ones stay apart
/// by 0.
void fit_target(const Dataset& train, FittedColumn& column) {
  const auto count = static_cast<double>(train.targets.size());
  double sum = 0;
  for (auto target : train.targets)
    sum += target;
  const auto mean = sum / count;
  double squares = 0;
  for (auto target : train.targets)
    squares += (target - mean) * (target - mean);
  column.mean = static_cast<float>(mean);
  // What rounding alone makes of equal values is no deviation.
  const auto deviation = std::sqrt(squares / count);
  if (const auto rounded = static_cast<float>(deviation);
      deviation > 1e-12 * std::fabs(mean) && rounded > 0)
    column.deviation = rounded;
}

/// Texts that are in at least `min_count` samples, in the order of their bytes.
std::vector<std::string> common_values(const ValueIndex& values,
                                       const std::vector<uint64_t>& counts,
                                       uint64_t min_count) {
  std::vector<std::string> result;
  for (uint32_t i = 0; i < values.size(); ++i)
    if (counts[i] >= min_count)
      result.emplace_back(values.text(i));
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<uint64_t> counts_of_labels(const Dataset& train, size_t values) {
  std::vector<uint64_t> counts(values);
  for (auto label : train.labels)
    ++counts[static_cast<size_t>(label)];
  return counts;
}

/// Brings the numbers of texts to ids that begin at `first`.
void number_ids(const FittedColumn& column, const ValueIndex& values,
                size_t place, int32_t first, Dataset& part) {
  std::vector<int32_t> ids{first + missing_id};
  for (uint32_t i = 0; column.rule.buckets == 0 && i < values.size(); ++i)
    ids.push_back(first + column.id_of(values.text(i)));
  for (auto i = place; i < part.ids.size(); i += part.shape.ids)
    part.ids[i] = column.rule.buckets > 0
                    ? first + part.ids[i]
                    : ids[static_cast<size_t>(part.ids[i])];
}

void number_labels(const FittedColumn& column, const ValueIndex& values,
                   bool unlabelled, Dataset& part) {
  const auto& classes = column.values;
  part.shape.label = classes.size() == 2 ? LabelKind::binary
                                         : LabelKind::classes;
  part.shape.classes = part.shape.label == LabelKind::binary
                         ? 0
                         : static_cast<uint32_t>(classes.size());
  if (!part.labelled)
    return;
  std::vector<int32_t> numbers;
  for (uint32_t i = 0; i < values.size(); ++i)
    numbers.push_back(column.class_of(values.text(i)));
  for (auto& label : part.labels) {
    const auto number = static_cast<uint32_t>(label);
    label = numbers[number];
    if (label < 0 && unlabelled) {
      part.labelled = false;
      part.labels.assign(part.labels.size(), 0);
      return;
    }
    if (label < 0)
      throw InputError(part.name + ": label " + in_quotes(values.text(number))
                       + " is none of the training part's "
                       + std::to_string(classes.size()) + " (first "
                       + in_quotes(classes.front())
                       + "); shuffle the file, or take both from one set");
  }
}

void scale_target(const FittedColumn& column, Dataset& part) {
  if (part.labelled)
    for (auto& target : part.targets)
      target =
        static_cast<float>((double{target} - column.mean) / column.deviation);
}

void fill_gaps(const FittedColumn& column, size_t feature, Dataset& part) {
  const auto width = part.features();
  const auto samples = part.samples();
  auto* at = part.values.data() + feature;
  for (uint64_t i = 0; i < samples; ++i, at += width)
    if (std::isnan(*at))
      *at = column.fill;
}

} // namespace

int32_t add_value(const ColumnRule& rule, std::string_view text,
                  ValueIndex& values, const std::string& name) {
  const auto number = values.add(text);
  if (number >= rule.value_limit())
    throw InputError(name + ": " + too_many(rule) + "; "
                     + advice_on_many(rule));
  return static_cast<int32_t>(number);
}

std::vector<ColumnRule> spread_rules(const std::vector<ColumnRule>& rules,
                                     const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> ruled;
  for (const auto& rule : rules)
    ruled.insert(rule.name);
  std::vector<ColumnRule> result;
  for (const auto& rule : rules) {
    if (rule.name != "*") {
      result.push_back(rule);
      continue;
    }
    for (const auto& name : names) {
      if (name.empty() || ruled.contains(name))
        continue; // what has no name cannot be found again
      result.push_back(rule);
      result.back().name = name;
    }
  }
  // What is not looked at is not looked for, either.
  std::erase_if(result, [](const ColumnRule& rule) {
    return rule.kind == ColumnKind::ignore;
  });
  return result;
}

std::vector<ColumnRule> column_rules_of(const DataSpec& spec) {
  const auto text = option(spec, "columns").value_or("");
  if (!text.starts_with('@'))
    return parse_column_rules(text);
  const auto path = text.substr(1);
  auto rules = read_column_rules(path);
  try {
    check_column_rules(rules);
  } catch (const UsageError& mistake) {
    throw InputError(path + ": " + mistake.what());
  }
  return rules;
}

void check_table(const DataSpec& spec) {
  for (const auto* key : {"label", "task"})
    if (option(spec, key))
      refuse(spec, std::string{key} + "= does not go with columns=, which says "
                     + "it: NAME:label for classes, NAME:target for a number");
  if (option(spec, "columns")->starts_with('@'))
    return; // its file is not looked at
  try {
    check_column_rules(column_rules_of(spec));
  } catch (const UsageError& mistake) {
    refuse(spec, mistake.what());
  }
}

Dataset read_table(const DataSpec& spec, const ReadLimits& limits,
                   const TablePart* part) {
  return RuledTable{spec, limits, part}.read();
}

std::shared_ptr<FittedColumns> fit_columns(const DataSpec& spec,
                                           const Dataset& train) {
  auto fitted = std::make_shared<FittedColumns>();
  fitted->given = option(spec, "columns").value_or("");
  for (const auto* key : {"na", "sep", "header", "scale"})
    if (const auto value = option(spec, key))
      fitted->options.emplace_back(key, *value);
  const auto& table = *train.table;
  auto sums = sums_of(train);
  for (size_t i = 0; i < table.rules.size(); ++i) {
    const auto& rule = table.rules[i];
    const auto& values = table.values[i];
    if (rule.is_label() && !train.labelled)
      throw InputError(train.name + ": the label " + in_quotes(rule.name)
                       + " is not there or blank, and the weights keep no "
                         "columns, so nothing is known of it; take weights "
                         "that were trained on such a table");
    FittedColumn column;
    column.rule = rule;
    if (rule.has_feature())
      column.fill = fill_of(rule, sums[i]);
    if (rule.has_id() && rule.has_vocabulary())
      column.values = common_values(table.groups ? sums[i].values : values,
                                    sums[i].counts, rule.min_count);
    if (rule.kind == ColumnKind::label)
      column.values = common_values(values,
                                    counts_of_labels(train, values.size()), 1);
    if (rule.scaled)
      fit_target(train, column);
    if (rule.kind == ColumnKind::label && column.values.size() < 2)
      throw InputError(train.name + ": the label " + in_quotes(rule.name)
                       + " of every sample to train on is "
                       + in_quotes(column.values.front())
                       + ", so there is nothing to learn; take other samples, "
                         "or another label");
    fitted->columns.push_back(std::move(column));
  }
  if (kept_bytes(*fitted) > max_vocabulary_bytes)
    throw InputError(train.name
                     + ": the values of its columns of categories and ids take "
                       "more than "
                     + std::to_string(max_vocabulary_bytes)
                     + " bytes with the weights; give the largest min_count= "
                       "or buckets=");
  return fitted;
}

void apply_columns(const std::shared_ptr<FittedColumns>& fitted, Dataset& part,
                   bool unlabelled) {
  const auto table = part.table;
  if (!table || table->rules != fitted->rules())
    throw InputError(part.name + ": has other columns than those that were "
                     + "trained on; leave columns= out");
  if (table->groups)
    table->groups->take(fitted);
  size_t feature = 0;
  size_t id = 0;
  uint64_t first_id = 0;
  for (size_t i = 0; i < table->rules.size(); ++i) {
    const auto& column = fitted->columns[i];
    const auto& rule = column.rule;
    if (rule.has_feature() && !part.in_files)
      fill_gaps(column, feature, part);
    feature += rule.features();
    if (rule.has_id()) {
      if (first_id + column.ids() > std::numeric_limits<int32_t>::max())
        throw InputError(part.name + ": columns up to " + in_quotes(rule.name)
                         + " have more than 2147483647 ids; give fewer "
                           "buckets=");
      number_ids(column, table->values[i], id++, static_cast<int32_t>(first_id),
                 part);
      first_id += column.ids();
    }
    if (rule.kind == ColumnKind::label)
      number_labels(column, table->values[i], unlabelled, part);
    if (rule.scaled)
      scale_target(column, part);
  }
  part.shape.vocabulary = static_cast<uint32_t>(first_id);
  part.fitted = fitted;
  part.table.reset();
}

} // namespace troupe

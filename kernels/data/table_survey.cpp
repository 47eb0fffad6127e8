#include "kernels/data/table_survey.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/csv_options.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/table_rows.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace troupe {

namespace {

/// What all columns together may remember.
constexpr uint64_t max_surveyed_values = 8'000'000;
constexpr uint64_t max_surveyed_bytes = uint64_t{256} << 20;
/// Columns of a file; each takes some memory.
constexpr size_t max_surveyed_columns = 20'000;

std::string likely_separator(const DataFile& file) {
  TextLines lines{file};
  std::string_view line;
  while (lines.next(line) && trimmed(line).empty()) {
  }
  std::string best = ",";
  ptrdiff_t most = 0;
  for (const auto* name : {",", "\t", ";", "|"})
    if (const auto count = std::count(line.begin(), line.end(), *name);
        count > most) {
      most = count;
      best = name;
    }
  return best == "\t" ? "tab" : best;
}

/// Names are there. The first may be missing: so tables are written whose rows
/// have numbers.
bool could_be_names(const TextRow& row) {
  for (size_t i = 1; i < row.size(); ++i)
    if (trimmed(row[i]).empty())
      return false;
  return true;
}

bool has_one_twice(TextRow row) {
  std::sort(row.begin(), row.end());
  return std::adjacent_find(row.begin(), row.end()) != row.end();
}

/// A ? begins the keys of a specification.
std::string escaped(const std::string& text) {
  std::string out;
  for (auto c : text)
    out += c == '?' ? std::string{"%3F"} : std::string{c};
  return out;
}

bool has_number(const TextRow& row) {
  return std::ranges::any_of(row, [](std::string_view field) {
    return parse_real(field).has_value();
  });
}

/// Whether a text stands over a number somewhere.
bool is_over_numbers(const TextRow& first, const DataFile& file, char separator,
                     const MissingTexts& missing) {
  TextLines lines{file};
  Fields fields{separator};
  std::string_view line;
  for (int row = 0; lines.next(line);) {
    if (trimmed(line).empty())
      continue;
    const auto& next = fields.split(line, lines);
    if (++row < 2)
      continue;
    for (size_t i = 0; i < std::min(first.size(), next.size()); ++i)
      if (!parse_real(first[i]) && !missing.has(trimmed(first[i]))
          && parse_real(next[i]))
        return true;
    return false;
  }
  return false;
}

bool is_label_name(std::string name) {
  for (auto& c : name)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto* known : {"label", "target", "class", "y", "outcome",
                            "rating", "survived", "churn", "income"})
    if (name == known)
      return true;
  return false;
}

class TableSurveyor {
public:
  TableSurveyor(const DataSpec& spec,
                const std::shared_ptr<const FileStore>& store)
    : spec_(spec) {
    const auto files = list_files(spec.where, store);
    const auto list = option(spec, "na");
    if (list)
      missing_ = MissingTexts{*list};
    const bool is_text = spec.kind == "csv";
    if (is_text && !option(spec_, "sep"))
      if (auto sep = likely_separator(files.front()); sep != ",")
        spec_.options.emplace_back("sep", std::move(sep));
    first_file_ = files.front();
    if (const auto columns = option(spec, "columns"))
      given_ = columns->starts_with('@') ? rules_in(columns->substr(1))
                                         : parse_column_rules(*columns);
    rows_.emplace(spec_, files);
  }

  TableSurvey look() {
    rows_->read(*this);
    if (out_.rows == 0)
      throw InputError(spec_.where
                       + ": holds no samples; is it the right file?");
    propose();
    return std::move(out_);
  }

  // --- for TableRows --------------------------------------------------------

  bool begin_file(const TextRow& first) {
    if (out_.columns.empty())
      start(first);
    return header_;
  }

  bool uses(size_t field) const { return rows_->parquet().is_readable(field); }

  template <class Row>
  void add(const Row& row) {
    rows_->check_width(row.size(), out_.columns.size());
    ++out_.rows;
    for (size_t i = 0; i < row.size(); ++i) {
      auto& column = out_.columns[i];
      const auto text = trimmed(row[i]);
      const auto before = column.values();
      column.add(text, missing_,
                 values_ < max_surveyed_values
                   && bytes_ + text.size() < max_surveyed_bytes);
      if (column.values() > before) {
        ++values_;
        bytes_ += text.size();
      }
    }
  }

private:
  void start(const TextRow& row) {
    if (row.size() < 2)
      rows_->refuse("has one column, a label without features",
                    rows_->is_parquet()
                      ? "is it the right file?"
                      : "give sep=… if another character separates");
    if (row.size() > max_surveyed_columns)
      rows_->refuse("has more than " + std::to_string(max_surveyed_columns)
                      + " columns",
                    "is this a table?");
    if (!rows_->is_parquet() && !option(spec_, "header"))
      find_header(row);
    header_ = csv_has_header(spec_);
    for (size_t i = 0; i < row.size(); ++i)
      out_.columns.emplace_back(header_ ? std::string{trimmed(row[i])}
                                        : std::to_string(i));
  }

  /// A number may be a name as well, a year's say, and a name may be there
  /// twice: then the next row tells.
  void find_header(const TextRow& row) {
    const bool doubtful = has_number(row) || has_one_twice(row);
    if (could_be_names(row)
        && (!doubtful
            || is_over_numbers(row, *first_file_, csv_separator(spec_),
                               missing_))) {
      if (doubtful)
        spec_.options.emplace_back("header", "true");
      return;
    }
    spec_.options.emplace_back("header", "false");
  }

  static std::vector<ColumnRule> rules_in(const std::string& path) {
    auto rules = read_column_rules(path);
    try {
      check_some_column_rules(rules);
    } catch (const UsageError& mistake) {
      throw InputError(path + ": " + mistake.what());
    }
    return rules;
  }

  /// What columns= says of a column; null: nothing.
  const ColumnRule* given(const std::string& name) const {
    const ColumnRule* others = nullptr;
    for (const auto& rule : given_) {
      if (rule.name == name)
        return &rule;
      if (rule.name == "*")
        others = &rule;
    }
    return others;
  }

  void check_given() const {
    for (const auto& rule : given_)
      if (rule.name != "*"
          && std::ranges::none_of(out_.columns, [&](const auto& column) {
               return column.name() == rule.name;
             }))
        throw InputError(spec_.where + ": has no column " + in_quotes(rule.name)
                         + ", which columns= names; name it as the first line "
                           "does");
  }

  size_t label() {
    const auto& columns = out_.columns;
    for (size_t i = 0; i < columns.size(); ++i)
      if (const auto* rule = given(columns[i].name());
          rule != nullptr && rule->is_label())
        return i;
    if (const auto wanted = option(spec_, "label")) {
      for (size_t i = 0; i < columns.size(); ++i)
        if (columns[i].name() == *wanted
            || (is_column_index(*wanted) && std::to_string(i) == *wanted))
          return i;
      throw InputError(spec_.where + ": has no column " + in_quotes(*wanted)
                       + "; give label= one of its names, or an index");
    }
    // What is said to be something else is none.
    std::vector<size_t> free;
    for (auto i = columns.size(); i-- > 0;)
      if (std::ranges::find(given_, columns[i].name(), &ColumnRule::name)
          == given_.end())
        free.push_back(i);
    for (const auto i : free)
      if (is_label_name(columns[i].name())) {
        out_.label_by = TableSurvey::LabelBy::name;
        return i;
      }
    out_.label_by = TableSurvey::LabelBy::place;
    return free.empty() ? columns.size() - 1 : free.front();
  }

  void propose() {
    check_given();
    const auto labelled = label();
    out_.label = out_.columns[labelled].name();
    pass_over_strays(labelled);
    std::vector<ColumnRule> used;
    bool ids = false;
    bool features = false;
    for (size_t i = 0; i < out_.columns.size(); ++i) {
      out_.proposal.push_back(out_.columns[i].proposal(i == labelled));
      if (const auto* rule = given(out_.columns[i].name());
          rule != nullptr && (i != labelled || rule->is_label())) {
        out_.proposal.back() = *rule;
        out_.proposal.back().name = out_.columns[i].name();
      }
      const auto& rule = out_.proposal.back();
      ids = ids || rule.has_id();
      features = features || rule.has_feature();
      if (rule.kind != ColumnKind::ignore)
        used.push_back(rule);
    }
    out_.trouble = trouble_of(out_.columns[labelled], out_.proposal[labelled],
                              used);
    if (!out_.trouble.empty())
      return;
    std::erase_if(spec_.options, [](const auto& option) {
      return option.first == "label" || option.first == "task"
             || option.first == "columns";
    });
    if (features && !option(spec_, "scale"))
      spec_.options.emplace_back("scale", "standard");
    out_.data = spec_.kind + ":" + escaped(spec_.where)
                + "?columns=" + to_text(used);
    for (const auto& [key, value] : spec_.options)
      out_.data += '&' + key + '=' + escaped(value);
    const auto& rule = out_.proposal[labelled];
    const auto outputs =
      rule.kind == ColumnKind::target
        ? uint64_t{1}
        : std::max<uint64_t>(2, out_.columns[labelled].values());
    out_.model = ids ? "wide_deep"
                     : "mlp:" + std::to_string(features_of_rules(used)) + "-64-"
                         + std::to_string(outputs);
  }

  /// A column of numbers with a few texts is one of numbers that are missing
  /// there, where these texts can be named and mean nothing elsewhere.
  void pass_over_strays(size_t labelled) {
    const auto listable = [this](const ColumnSurvey& of,
                                 const std::string& text) {
      return text.find_first_of(",&?%") == text.npos
             && std::ranges::none_of(out_.columns,
                                     [&](const ColumnSurvey& other) {
                                       return &other != &of && other.has(text);
                                     });
    };
    std::string list;
    for (size_t i = 0; i < out_.columns.size(); ++i) {
      auto& column = out_.columns[i];
      const auto strays = column.strays();
      const auto* rule = given(column.name());
      if (i == labelled || strays.empty()
          || (rule != nullptr && rule->kind != ColumnKind::number)
          || !std::ranges::all_of(strays, [&](const auto& text) {
               return listable(column, text);
             }))
        continue;
      column.pass_over_strays();
      for (const auto& text : strays) {
        list += ',' + text;
        out_.strays.push_back({column.name(), text});
      }
    }
    if (list.empty())
      return;
    const auto known = option(spec_, "na");
    std::erase_if(spec_.options,
                  [](const auto& option) { return option.first == "na"; });
    spec_.options.emplace_back(
      "na", std::string{known ? *known : MissingTexts::usual} + list);
  }

  /// What training with these rules would refuse, and what to do.
  static std::string trouble_of(const ColumnSurvey& label,
                                const ColumnRule& rule,
                                const std::vector<ColumnRule>& used) {
    const auto name = "the label " + in_quotes(label.name());
    if (rule.name.empty())
      return "the label has no name: give it one in the first line, or another "
             "column as label=";
    if (label.missing() > 0)
      return name + " is missing in " + std::to_string(label.missing()) + " of "
             + std::to_string(label.rows())
             + " samples: fill the gaps, remove these lines, or give another "
               "column as label=";
    if (rule.kind == ColumnKind::label && label.values() < 2)
      return name
             + " is the same in all samples, so there is nothing to learn: "
             + "give another column as label=";
    if (rule.kind == ColumnKind::label
        && (label.more_values() || label.values() > rule.value_limit()))
      return name + " has more than " + std::to_string(rule.value_limit())
             + " different texts: give another column as label=";
    std::set<std::string_view> names;
    for (const auto& one : used)
      if (!names.insert(one.name).second)
        return "several columns are called " + in_quotes(one.name)
               + ": call all but one of them otherwise";
    if (used.size() < 2)
      return "no column but " + name
             + " tells anything: each has one value alone, or another text in "
               "most samples";
    return {};
  }

  static uint64_t features_of_rules(const std::vector<ColumnRule>& rules) {
    uint64_t result = 0;
    for (const auto& rule : rules)
      result += rule.features();
    return result;
  }

  DataSpec spec_;
  std::vector<ColumnRule> given_; ///< by columns=
  std::optional<DataFile> first_file_;
  std::optional<TableRows> rows_;
  MissingTexts missing_;
  bool header_ = true;
  uint64_t values_ = 0;
  uint64_t bytes_ = 0;
  TableSurvey out_;
};

} // namespace

TableSurvey survey_table(const DataSpec& spec,
                         const std::shared_ptr<const FileStore>& store) {
  if (spec.kind != "csv" && spec.kind != "parquet")
    refuse(spec, "is no table; data info looks at csv:FILE or parquet:FILES");
  return TableSurveyor{spec, store}.look();
}

} // namespace troupe

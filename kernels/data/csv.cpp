#include "kernels/data/csv.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/class_labels.hpp"
#include "kernels/data/csv_options.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/table_data.hpp"
#include "kernels/data/table_groups.hpp"
#include "kernels/data/table_rows.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/files/number_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace troupe {

namespace {

constexpr std::array tasks{"classes", "regression"};
const std::string no_label = "none"; ///< of label=

bool is_regression(const DataSpec& spec) {
  return choice_option(spec, "task", tasks) == "regression";
}

/// Makes samples of rows that hold numbers, one of which is the label.
class NumberTable {
public:
  /// `part`: null for all rows.
  NumberTable(const DataSpec& spec, const ReadLimits& limits,
              const TablePart* part)
    : spec_(spec),
      rows_(spec, limits.store, part),
      expected_(part != nullptr ? part->rows : 0),
      numbers_(csv_separator(spec)),
      regression_(is_regression(spec)),
      may_lack_label_(limits.unlabelled),
      memory_(limits.memory) {}

  Dataset read() {
    rows_.read(*this);
    if (values_.empty())
      throw InputError(spec_.where
                       + ": holds no samples; is it the right file?");
    out_.name = spec_.kind + ":" + spec_.where;
    const auto features = labelled_ ? width_ - 1 : width_;
    const auto samples = values_.size() / features;
    out_.values = std::move(values_);
    out_.shape.features = {features};
    out_.shape.label = regression_ ? LabelKind::number : LabelKind::classes;
    if (!labelled_)
      take_no_labels(out_, samples, out_.shape.label, 0);
    return std::move(out_);
  }

  // --- for TableRows --------------------------------------------------------

  bool begin_file(const TextRow& first) {
    return width_ == 0 ? start(first) : again(first);
  }

  /// One that holds numbers alone; others have to be looked at more closely.
  bool take_line(std::string_view line) {
    row_.resize(width_);
    if (!numbers_.take(line, row_) || !std::ranges::all_of(row_, is_float32))
      return false;
    const auto label = labelled_ ? row_[label_] : 0;
    const bool is_class = label >= 0 && label <= largest_class
                          && label == std::floor(label);
    if (!regression_ && !is_class)
      return false;
    grow();
    const auto middle = row_.begin() + static_cast<ptrdiff_t>(label_);
    values_.insert(values_.end(), row_.begin(), middle);
    if (labelled_)
      values_.insert(values_.end(), middle + 1, row_.end());
    if (labelled_ && regression_)
      out_.targets.push_back(static_cast<float>(label));
    else if (labelled_)
      out_.labels.push_back(static_cast<int32_t>(label));
    return true;
  }

  static bool uses(size_t) { return true; }

  template <class Row>
  void add(const Row& row) {
    rows_.check_width(row.size(), width_);
    grow();
    for (size_t i = 0; i < width_; ++i)
      if (i != label_)
        values_.push_back(number(row, i));
    if (labelled_ && regression_)
      out_.targets.push_back(number(row, label_));
    else if (labelled_)
      out_.labels.push_back(class_of(row[label_]));
  }

private:
  static bool is_float32(double value) {
    return std::fabs(value) <= std::numeric_limits<float>::max();
  }

  void grow() {
    make_room(values_, width_, rows_.path());
    check_held(spec_, values_.size() * sizeof(float), memory_);
  }

  /// Whether the first line of a further file is its header, which has to be
  /// that of the first file.
  bool again(const TextRow& first) {
    if (names_.empty())
      return false;
    if (!std::equal(first.begin(), first.end(), names_.begin(), names_.end()))
      rows_.refuse("is not the header of the first file",
                   "take files of the same columns in the same order");
    return true;
  }

  /// Learns the columns from the first line; true where that is all it says.
  bool start(const TextRow& first) {
    width_ = first.size();
    labelled_ = option(spec_, "label") != no_label || has_name(first, no_label);
    if (!labelled_ && !may_lack_label_)
      rows_.refuse("label=none says that there is no label",
                   "predict alone takes such samples");
    if (width_ < 2 && labelled_)
      rows_.refuse("has one column, a label without features",
                   "give sep=… if another character separates");
    const bool header = csv_has_header(spec_);
    if (header)
      rows_.check_names(first);
    label_ = labelled_ ? width_ - 1 : width_;
    if (const auto wanted = option(spec_, "label"); wanted && labelled_)
      label_ = find_label(*wanted, first);
    for (size_t i = 0; header && i < width_; ++i)
      if (i != label_)
        out_.columns.emplace_back(trimmed(first[i]));
    make_room(values_, expected_ * (width_ - (labelled_ ? 1 : 0)),
              rows_.path());
    names_.assign(first.begin(), first.end());
    if (!header)
      names_.clear();
    return header;
  }

  static bool has_name(const TextRow& first, std::string_view wanted) {
    return std::ranges::any_of(first, [&](auto name) {
      return trimmed(name) == wanted;
    });
  }

  size_t find_label(const std::string& wanted, const TextRow& first) {
    if (is_column_index(wanted)) {
      const auto index = static_cast<size_t>(std::stoul(wanted));
      if (index >= width_)
        rows_.refuse("has " + std::to_string(width_) + " columns, no column "
                       + wanted,
                     "count from 0");
      return index;
    }
    const auto found = std::find_if(first.begin(), first.end(), [&](auto name) {
      return trimmed(name) == wanted;
    });
    if (found == first.end())
      rows_.refuse("has no column " + in_quotes(wanted),
                   "give label= one of the header's names, an index, or none "
                   "to predict for samples without a label");
    return static_cast<size_t>(found - first.begin());
  }

  int32_t class_of(std::string_view text) const {
    if (trimmed(text).empty())
      rows_.refuse("has no label", "fill the gap or remove the line");
    if (!parse_real(text))
      rows_.refuse("the label " + in_quotes(text) + " is not a number",
                   proposed_columns() + "; or is another column the label?");
    const auto label = class_label(text, rows_);
    if (label < 0)
      rows_.refuse("the label " + in_quotes(text) + " is below 0",
                   "number the classes from 0, or add task=regression");
    return label;
  }

  template <class Row>
  float number(const Row& row, size_t column) const {
    if (const auto known = float32_of(known_real(row, column)))
      return *known;
    const std::string_view text = row[column];
    const auto value = parse_float32(text);
    if (!value)
      rows_.refuse_number(text, name(column),
                          trimmed(text).empty()
                            ? "fill the gap; or " + proposed_columns()
                            : proposed_columns() + "; or remove the column");
    return *value;
  }

  /// Where to find out what else a column may be.
  std::string proposed_columns() const {
    return "troupe data info " + to_string({spec_.kind, spec_.where, {}})
           + " proposes columns= for such a file";
  }

  std::string name(size_t column) const {
    return column < names_.size() ? in_quotes(names_[column])
                                  : std::to_string(column);
  }

  const DataSpec& spec_;
  TableRows rows_;
  uint64_t expected_; ///< rows; 0: it is not known how many
  NumberLine numbers_;
  std::vector<double> row_; ///< of the line that is being read
  bool regression_;
  bool may_lack_label_;
  std::optional<uint64_t> memory_;
  bool labelled_ = true;
  size_t width_ = 0;
  size_t label_ = 0;
  std::vector<std::string> names_;
  std::vector<float> values_;
  Dataset out_;
};

} // namespace

void check_csv(const DataSpec& spec) {
  csv_separator(spec);
  is_regression(spec);
  const bool header = csv_has_header(spec);
  if (option(spec, "columns"))
    return check_table(spec);
  if (option(spec, "na"))
    refuse(spec, "na= says what a missing value is, which goes with columns= "
                 "alone");
  const auto label = option(spec, "label");
  if (!header && label && label != no_label && !is_column_index(*label))
    refuse(spec, "label=" + *label
                   + " is a name, but header=false; give the "
                     "column's index from 0");
}

Dataset read_csv(const DataSpec& spec, const ReadLimits& limits) {
  if (auto left = leave_in_groups(spec, limits))
    return std::move(*left);
  return read_table_part(spec, limits, nullptr);
}

Dataset read_table_part(const DataSpec& spec, const ReadLimits& limits,
                        const TablePart* part) {
  return option(spec, "columns") ? read_table(spec, limits, part)
                                 : NumberTable{spec, limits, part}.read();
}

void fit_csv(const DataSpec&, Dataset& train, Dataset* eval) {
  if (eval != nullptr && eval->shape.features != train.shape.features)
    throw InputError(
      eval->name + ": has " + std::to_string(eval->shape.features[0])
      + " columns of features, the training part "
      + std::to_string(train.shape.features[0]) + "; take both from one set");
  if (eval != nullptr && !eval->columns.empty() && !train.columns.empty())
    for (size_t i = 0; i < train.columns.size(); ++i)
      if (eval->columns[i] != train.columns[i])
        throw InputError(eval->name + ": has the column "
                         + in_quotes(eval->columns[i]) + " where the training "
                         + "part has " + in_quotes(train.columns[i])
                         + "; order them alike");
  if (train.shape.label == LabelKind::classes && train.labelled)
    fit_classes(train, eval);
}

} // namespace troupe

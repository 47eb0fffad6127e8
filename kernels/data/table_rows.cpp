#include "kernels/data/table_rows.hpp"

#include "kernels/data/csv_options.hpp"
#include "kernels/data/data_options.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Whether a row that should name columns could as well be a sample.
bool is_doubtful(const TextRow& names) {
  return std::ranges::all_of(names, [](std::string_view name) {
    return parse_real(name).has_value();
  });
}

} // namespace

TableRows::TableRows(const DataSpec& spec, std::vector<DataFile> files)
  : files_(std::move(files)),
    is_parquet_(spec.kind == "parquet"),
    is_said_(is_parquet_ || option(spec, "header").has_value()),
    fields_(csv_separator(spec)) {}

TableRows::TableRows(const DataSpec& spec,
                     const std::shared_ptr<const FileStore>& store,
                     const TablePart* part)
  : TableRows(spec, part != nullptr ? std::vector{part->file}
                                    : list_files(spec.where, store)) {
  if (part != nullptr)
    group_ = part->group;
}

void TableRows::refuse(const std::string& what,
                       const std::string& advice) const {
  if (is_parquet_)
    parquet_->refuse(what, advice);
  lines_->refuse(what, advice);
}

void TableRows::check_width(size_t fields, size_t width) const {
  if (fields != width)
    refuse("has " + std::to_string(fields)
             + (is_parquet_ ? " columns, the first file "
                            : " fields, the first line ")
             + std::to_string(width),
           is_parquet_
             ? "write it with the columns of the others"
             : "mend the line, or give sep=… if another character separates");
}

void TableRows::check_names(const TextRow& first) const {
  if (!is_said_ && is_doubtful(first))
    refuse("holds numbers alone, so it may be a sample and not the columns' "
           "names",
           "add header=false where it is one, header=true where it is not");
}

void TableRows::refuse_number(std::string_view text, const std::string& column,
                              const std::string& advice) const {
  refuse("column " + column + " holds " + in_quotes(text)
           + ", not a finite float32 number",
         advice);
}

std::optional<float> parse_float32(std::string_view text) {
  return float32_of(parse_real(text));
}

} // namespace troupe

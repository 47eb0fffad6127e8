#include "kernels/data/csv_rows.hpp"

#include "kernels/data/csv_options.hpp"
#include "kernels/data/data_options.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe {
namespace {

/// Whether a row that should name columns could as well be a sample.
bool is_doubtful(const CsvRow& names) {
  return std::ranges::all_of(names, [](std::string_view name) {
    return parse_real(name).has_value();
  });
}

} // namespace

CsvRows::CsvRows(const DataSpec& spec, std::vector<DataFile> files)
  : files_(std::move(files)),
    is_said_(option(spec, "header").has_value()),
    fields_(csv_separator(spec)) {}

void CsvRows::check_width(const CsvRow& row, size_t width) const {
  if (row.size() != width)
    refuse("has " + std::to_string(row.size()) + " fields, the first line "
             + std::to_string(width),
           "mend the line, or give sep=… if another character separates");
}

void CsvRows::check_names(const CsvRow& first) const {
  if (!is_said_ && is_doubtful(first))
    refuse("holds numbers alone, so it may be a sample and not the columns' "
           "names",
           "add header=false where it is one, header=true where it is not");
}

void CsvRows::refuse_number(std::string_view text, const std::string& column,
                            const std::string& advice) const {
  refuse("column " + column + " holds " + in_quotes(text)
           + ", not a finite float32 number",
         advice);
}

std::optional<float> parse_float32(std::string_view text) {
  const auto value = parse_real(text);
  if (!value || std::fabs(*value) > std::numeric_limits<float>::max())
    return std::nullopt;
  return static_cast<float>(*value);
}

} // namespace troupe

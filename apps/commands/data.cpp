#include "actors/job/job.hpp"
#include "actors/stores/remote_store.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/columns.hpp"
#include "apps/terminal/shell_word.hpp"
#include "kernels/base/error.hpp"
#include "kernels/data/table_survey.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

// `troupe data info`: what a table holds, and what to make of it.

namespace troupe {
namespace {

using InfoRow = std::vector<std::string>;

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

/// What follows the name of a rule: its kind with its keys.
std::string kind_text(ColumnRule rule) {
  rule.name = "x";
  return to_text(rule).substr(2);
}

InfoRow row_of(const ColumnSurvey& column, const ColumnRule& proposal) {
  constexpr size_t max_letters = 24;
  const bool numbers = column.all_numbers();
  std::string examples;
  for (const auto& example : column.examples())
    examples += (examples.empty() ? "" : ", ")
                + shortened_to(max_letters, shown_text(example));
  return {shortened_to(max_letters, shown_text(column.name())),
          kind_text(proposal),
          std::to_string(column.missing()),
          std::to_string(column.values()) + (column.more_values() ? "+" : ""),
          numbers ? number_text(column.min()) : "",
          numbers ? number_text(column.mean()) : "",
          numbers ? number_text(column.max()) : "",
          examples};
}

void print_table(const std::vector<InfoRow>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  constexpr size_t first_number = 2;
  constexpr size_t last_number = 6;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - columns_of(row[i]), ' ');
      const bool right = i >= first_number && i <= last_number;
      line += (i > 0 ? "  " : "") + (right ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

/// A small table has few steps an epoch, and an epoch is what is trained.
void print_epochs(uint64_t rows, uint64_t batch) {
  constexpr uint64_t some_steps = 2000;
  const auto steps = (rows + batch - 1) / batch;
  if (steps < some_steps)
    std::printf(
      "\nan epoch is %llu steps (--global-batch %llu): give --epochs "
      "%llu or so\n",
      static_cast<unsigned long long>(steps),
      static_cast<unsigned long long>(batch),
      static_cast<unsigned long long>((some_steps + steps - 1) / steps));
}

} // namespace

int run_data_info(const Settings& settings) {
  const auto survey = survey_table(parse_surveyed_spec(settings.job.data),
                                   store_of(settings.job.data_access));
  std::printf("%llu samples, %zu columns\n\n",
              static_cast<unsigned long long>(survey.rows),
              survey.columns.size());
  std::vector<InfoRow> rows{{"column", "proposed", "missing", "values", "min",
                             "mean", "max", "examples"}};
  for (size_t i = 0; i < survey.columns.size(); ++i)
    rows.push_back(row_of(survey.columns[i], survey.proposal[i]));
  print_table(rows);
  for (const auto& stray : survey.strays)
    std::printf("\ncolumn %s: %s is no number, and taken for a missing one "
                "(na=)\n",
                in_quotes(stray.column).c_str(), in_quotes(stray.text).c_str());
  for (const auto& column : survey.columns)
    if (const auto text = column.with_comma(); !text.empty())
      std::printf(
        "\ncolumn %s: %s is a text, and no number: write numbers with "
        "a decimal point\n",
        in_quotes(column.name()).c_str(), in_quotes(text).c_str());
  if (survey.label_by != TableSurvey::LabelBy::said)
    std::printf("\nthe label is taken to be %s, %s; "
                "another one by label=NAME behind the file's name\n",
                in_quotes(survey.label).c_str(),
                survey.label_by == TableSurvey::LabelBy::name
                  ? "as labels are often called so"
                  : "the last column of which nothing is said");
  if (!survey.trouble.empty())
    throw InputError(settings.job.data + ": " + survey.trouble);
  print_epochs(survey.rows, settings.job.global_batch);
  std::printf("\n--data %s --model %s\n", shell_word(survey.data).c_str(),
              survey.model.c_str());
  return 0;
}

} // namespace troupe

#include "kernels/data/criteo.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/files/fields.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/natural_log.hpp"
#include "kernels/numbers/text_hash.hpp"

namespace troupe {

namespace {

constexpr size_t columns = 1 + click_numbers + click_categories;

float number(std::string_view text, size_t column, const TextLines& lines) {
  if (trimmed(text).empty())
    return 0;
  const auto value = parse_real(text);
  if (!value)
    lines.refuse("column " + std::to_string(column) + " holds "
                   + in_quotes(text) + ", not a number",
                 "leave the field empty where it is not known");
  return *value > 0 ? static_cast<float>(kernels::natural_log(1 + *value)) : 0;
}

int32_t label(std::string_view text, const TextLines& lines) {
  const auto value = parse_whole(text);
  if (!value || *value < 0 || *value > 1)
    lines.refuse("the label " + in_quotes(text) + " is neither 0 nor 1",
                 "put the label into the first column");
  return static_cast<int32_t>(*value);
}

/// Calls check() after each sample.
template <class Check>
void add_clicks(TextLines& lines, uint64_t buckets, Dataset& out,
                std::vector<float>& values, const Check& check) {
  std::optional<Fields> fields;
  std::string_view line;
  while (lines.next(line)) {
    if (trimmed(line).empty())
      continue;
    const bool first = !fields;
    if (first)
      fields.emplace(line.find('\t') == line.npos ? ',' : '\t');
    const auto& row = fields->split(line, lines);
    if (row.size() != columns)
      lines.refuse("has " + std::to_string(row.size()) + " fields, not "
                     + std::to_string(columns),
                   "a line holds a label, 13 numbers and 26 categories, "
                   "separated by tabs or commas");
    if (first && trimmed(row[0]) == "label")
      continue;
    make_room(values, click_numbers, lines.path());
    make_room(out.ids, click_categories, lines.path());
    out.labels.push_back(label(row[0], lines));
    for (size_t i = 1; i <= click_numbers; ++i)
      values.push_back(number(row[i], i, lines));
    for (size_t i = 0; i < click_categories; ++i) {
      const auto category = trimmed(row[1 + click_numbers + i]);
      const auto bucket =
        category.empty() ? 0 : 1 + kernels::text_hash(category) % (buckets - 1);
      out.ids.push_back(static_cast<int32_t>(i * buckets + bucket));
    }
    check();
  }
}

} // namespace

uint64_t click_buckets(const DataSpec& spec) {
  constexpr uint64_t most = 4'000'000; // 26 fields stay well within int32
  return whole_option(spec, "buckets", 1000, 2, most);
}

void check_criteo(const DataSpec& spec) {
  click_buckets(spec);
}

Dataset read_criteo(const DataSpec& spec, const ReadLimits& limits) {
  const auto buckets = click_buckets(spec);
  Dataset result;
  result.name = "criteo:" + spec.where;
  result.shape.features = {click_numbers};
  result.shape.ids = click_categories;
  result.shape.vocabulary = static_cast<uint32_t>(click_categories * buckets);
  result.shape.label = LabelKind::binary;
  std::vector<float> values;
  for (const auto& file : list_files(spec.where, limits.store)) {
    TextLines lines{file};
    add_clicks(lines, buckets, result, values, [&] {
      check_held(spec, 4 * (result.ids.size() + values.size()), limits.memory);
    });
  }
  if (result.labels.empty())
    throw InputError(spec.where + ": holds no samples; is it the right file?");
  result.values = std::move(values);
  return result;
}

} // namespace troupe

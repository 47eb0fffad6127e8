#include "kernels/data/libsvm.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/class_labels.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

constexpr int32_t largest_index = 1 << 27;

constexpr std::array bases{"auto", "0", "1"};

std::optional<uint64_t> room_of(const DataSpec& spec) {
  if (!option(spec, "ids"))
    return std::nullopt;
  return whole_option(spec, "ids", 0, 1, largest_index);
}

/// Takes the next word off `line`; empty at the end.
std::string_view next_word(std::string_view& line) {
  const auto first = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(first);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const auto word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

struct Pair {
  int32_t index;
  float value;
};

Pair parse_pair(std::string_view word, const TextLines& lines) {
  constexpr auto advice = "write INDEX:VALUE";
  const auto colon = word.find(':');
  if (colon == word.npos)
    lines.refuse(in_quotes(word) + " is not a pair of index and value", advice);
  Pair result{};
  const auto* last = word.data() + colon;
  const auto [stop, error] = std::from_chars(word.data(), last, result.index);
  if (error != std::errc{} || stop != last || result.index < 0
      || result.index > largest_index)
    lines.refuse("the index of " + in_quotes(word)
                   + " is not a whole number from 0 to "
                   + std::to_string(largest_index),
                 advice);
  const auto value = parse_real(word.substr(colon + 1));
  if (!value || std::fabs(*value) > std::numeric_limits<float>::max())
    lines.refuse("the value of " + in_quotes(word)
                   + " is not a finite float32 number",
                 advice);
  result.value = static_cast<float>(*value);
  return result;
}

void parse_pairs(std::string_view line, int32_t first_index,
                 const TextLines& lines, Dataset& out,
                 std::vector<float>& values) {
  auto last_index = first_index - 1;
  for (auto word = next_word(line); !word.empty(); word = next_word(line)) {
    const auto pair = parse_pair(word, lines);
    if (pair.index < first_index)
      lines.refuse("index 0, though base=1 was given", "leave out base=1");
    if (pair.index <= last_index)
      lines.refuse("index " + std::to_string(pair.index) + " follows "
                     + std::to_string(last_index),
                   "indices ascend within a line");
    last_index = pair.index;
    make_room(out.ids, 1, lines.path());
    make_room(values, 1, lines.path());
    out.ids.push_back(pair.index);
    values.push_back(pair.value);
  }
}

/// Calls check() after each sample.
template <class Check>
void add_lines(TextLines& lines, int32_t first_index, Dataset& out,
               std::vector<float>& values, const Check& check) {
  std::string_view line;
  while (lines.next(line)) {
    line = line.substr(0, line.find('#'));
    const auto word = next_word(line);
    if (word.empty())
      continue;
    if (word.find(':') != word.npos)
      lines.refuse("starts with " + in_quotes(word) + " and has no label",
                   "write LABEL INDEX:VALUE …");
    make_room(out.labels, 1, lines.path());
    make_room(out.starts, 1, lines.path());
    out.labels.push_back(class_label(word, lines));
    parse_pairs(line, first_index, lines, out, values);
    out.starts.push_back(out.ids.size());
    check();
  }
}

int32_t base_of(const DataSpec& spec, const Dataset& train) {
  const auto base = choice_option(spec, "base", bases);
  if (base != "auto")
    return base == "0" ? 0 : 1;
  return std::find(train.ids.begin(), train.ids.end(), 0) == train.ids.end()
           ? 1
           : 0;
}

uint64_t widest(const Dataset& data) {
  uint64_t result = 0;
  for (size_t i = 0; i + 1 < data.starts.size(); ++i)
    result = std::max(result, data.starts[i + 1] - data.starts[i]);
  return result;
}

/// Keeps the ids that the training part's range holds.
void keep_known(Dataset& eval, int32_t base, uint32_t vocabulary) {
  const auto given_values = std::move(eval.values);
  std::vector<float> values;
  std::vector<int32_t> ids;
  size_t at = 0;
  for (size_t i = 0; i + 1 < eval.starts.size(); ++i) {
    const auto end = eval.starts[i + 1];
    for (; at < end; ++at) {
      if (eval.ids[at] < base)
        throw InputError(eval.name + ": has the index 0, but in the training "
                         + "part they start at 1; add base=0 to --data");
      const auto id = eval.ids[at] - base;
      if (static_cast<uint32_t>(id) >= vocabulary) {
        ++eval.left_out;
        continue;
      }
      ids.push_back(id);
      values.push_back(given_values[at]);
    }
    eval.starts[i + 1] = ids.size();
  }
  eval.ids = std::move(ids);
  eval.values = std::move(values);
}

/// 0/1 or -1/+1, as far as the training part tells.
bool is_binary(const std::vector<int32_t>& labels) {
  const auto [low, high] = std::minmax_element(labels.begin(), labels.end());
  const bool zero = std::find(labels.begin(), labels.end(), 0) != labels.end();
  return *low >= -1 && *high <= 1 && !(*low == -1 && zero);
}

void make_binary(Dataset& data) {
  for (auto& label : data.labels) {
    if (label < -1 || label > 1)
      throw InputError(data.name + ": label " + std::to_string(label)
                       + ", but those of the training part are 0/1 or -1/+1; "
                         "take both from one set");
    label = label == 1 ? 1 : 0;
  }
}

} // namespace

void check_libsvm(const DataSpec& spec) {
  choice_option(spec, "base", bases);
  room_of(spec);
}

Dataset read_libsvm(const DataSpec& spec, const ReadLimits& limits) {
  const auto first_index = choice_option(spec, "base", bases) == "1" ? 1 : 0;
  Dataset result;
  result.name = "libsvm:" + spec.where;
  result.starts.push_back(0);
  std::vector<float> values;
  for (const auto& file : list_files(spec.where, limits.store)) {
    TextLines lines{file};
    add_lines(lines, first_index, result, values, [&] {
      check_held(spec, 4 * (result.ids.size() + values.size()), limits.memory);
    });
  }
  if (result.labels.empty())
    throw InputError(spec.where + ": holds no samples; is it the right file?");
  result.values = std::move(values);
  return result;
}

void fit_libsvm(const DataSpec& spec, Dataset& train, Dataset* eval) {
  if (train.ids.empty())
    throw InputError(train.name
                     + ": no sample has any INDEX:VALUE; "
                       "is it the right file?");
  const auto base = base_of(spec, train);
  for (auto& id : train.ids)
    id -= base;
  const auto largest = *std::max_element(train.ids.begin(), train.ids.end());
  const auto longest = widest(train);
  const auto room = room_of(spec).value_or(longest);
  if (longest > room)
    throw InputError(train.name + ": a sample holds " + std::to_string(longest)
                     + " ids, more than ids=" + std::to_string(room)
                     + "; make it larger");
  train.shape.vocabulary = static_cast<uint32_t>(largest) + 1;
  train.shape.ids = static_cast<uint32_t>(room);
  train.shape.features = {room};
  if (eval != nullptr) {
    keep_known(*eval, base, train.shape.vocabulary);
    if (widest(*eval) > room)
      throw InputError(eval->name + ": a sample of the evaluation part holds "
                       + std::to_string(widest(*eval)) + " ids, the longest of "
                       + "training " + std::to_string(room) + "; add ids="
                       + std::to_string(widest(*eval)) + " to --data");
    eval->shape = train.shape;
  }
  if (!is_binary(train.labels))
    return fit_classes(train, eval);
  train.shape.label = LabelKind::binary;
  make_binary(train);
  if (eval != nullptr) {
    eval->shape = train.shape;
    make_binary(*eval);
  }
}

} // namespace troupe

#include "kernels/data/data_kinds.hpp"

#include "kernels/data/cifar10.hpp"
#include "kernels/data/clicks.hpp"
#include "kernels/data/criteo.hpp"
#include "kernels/data/csv.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/digits.hpp"
#include "kernels/data/drawn_rows.hpp"
#include "kernels/data/idx.hpp"
#include "kernels/data/libsvm.hpp"
#include "kernels/data/markov_text.hpp"
#include "kernels/data/npy.hpp"
#include "kernels/data/record_data.hpp"
#include "kernels/data/text.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace troupe {

namespace {

constexpr uint64_t default_samples = 60'000;
constexpr uint64_t usual_block = 16'384;
constexpr uint64_t usual_window = 8; // blocks
constexpr uint64_t max_samples = 100'000'000;
constexpr uint64_t any_seed = std::numeric_limits<uint64_t>::max();

constexpr std::array eval_parts{"drawn", "tail"};
constexpr std::array shuffles{"all", "blocks"};
constexpr std::array splits{"auto", "train", "test"};
constexpr std::array scales{"none", "standard"};
constexpr std::array orders{"random", "ascending"};
constexpr std::array spreads{"skewed", "even"};

uint64_t samples_of(const DataSpec& spec) {
  return whole_option(spec, "samples", default_samples, 1, max_samples);
}

uint64_t seed_of(const DataSpec& spec) {
  return whole_option(spec, "seed", 0, 0, any_seed);
}

void check_split(const DataSpec& spec) {
  choice_option(spec, "split", splits);
}

void check_generator(const DataSpec& spec) {
  samples_of(spec);
  seed_of(spec);
}

Dataset read_mnist_spec(const DataSpec& spec, const ReadLimits& limits) {
  return read_mnist(one_file(spec.where, limits.store),
                    choice_option(spec, "split", splits));
}

Dataset read_cifar10_spec(const DataSpec& spec, const ReadLimits& limits) {
  return read_cifar10(one_file(spec.where, limits.store),
                      choice_option(spec, "split", splits));
}

Dataset draw_digits(const DataSpec& spec) {
  return synthetic_digits(samples_of(spec), seed_of(spec));
}

void check_clicks(const DataSpec& spec) {
  check_generator(spec);
  click_buckets(spec);
  choice_option(spec, "spread", spreads);
}

Dataset draw_clicks(const DataSpec& spec) {
  return synthetic_clicks({samples_of(spec), seed_of(spec), click_buckets(spec),
                           choice_option(spec, "spread", spreads) == "even"});
}

RowsOptions rows_of(const DataSpec& spec) {
  constexpr uint64_t max_rows = uint64_t{1} << 36;
  constexpr uint64_t max_vocabulary = uint64_t{1} << 31;
  RowsOptions rows;
  rows.samples = whole_option(spec, "samples", default_samples, 1, max_rows);
  rows.seed = seed_of(spec);
  rows.ids = whole_option(spec, "ids", rows.ids, 1, RowsOptions::max_held);
  rows.vocabulary = whole_option(spec, "vocabulary", rows.vocabulary, 1,
                                 max_vocabulary);
  rows.in_order = choice_option(spec, "order", orders) == "ascending";
  return rows;
}

void check_rows(const DataSpec& spec) {
  rows_of(spec);
}

Dataset draw_rows(const DataSpec& spec) {
  return synthetic_rows(rows_of(spec));
}

Dataset draw_text(const DataSpec& spec) {
  return synthetic_text(samples_of(spec), seed_of(spec));
}

constexpr auto own = KeyScope::own;
constexpr auto inherited = KeyScope::inherited;
constexpr auto shared = KeyScope::shared;

// Which samples --eval-fraction takes: of every kind but text.
constexpr DataKey eval_key{"eval", own};
constexpr DataKey eval_seed_key{"eval_seed", own};
// How samples are mixed, of the same kinds.
constexpr DataKey shuffle_key{"shuffle", own};
constexpr DataKey block_key{"block", own};
constexpr DataKey window_key{"window", own};

constexpr DataKey image_keys[]{{"split", own}, {"scale", shared}, eval_key,
                               eval_seed_key,  shuffle_key,       block_key,
                               window_key};
constexpr DataKey csv_keys[]{{"header", inherited},
                             {"label", inherited},
                             {"sep", inherited},
                             {"task", shared},
                             {"columns", shared},
                             {"na", shared},
                             {"scale", shared},
                             eval_key,
                             eval_seed_key,
                             shuffle_key,
                             block_key,
                             window_key};
constexpr DataKey parquet_keys[]{{"label", inherited},
                                 {"task", shared},
                                 {"columns", shared},
                                 {"na", shared},
                                 {"scale", shared},
                                 eval_key,
                                 eval_seed_key,
                                 shuffle_key,
                                 block_key,
                                 window_key};
constexpr DataKey libsvm_keys[]{{"base", shared}, {"ids", shared}, eval_key,
                                eval_seed_key,    shuffle_key,     block_key,
                                window_key};
constexpr DataKey criteo_keys[]{
  {"buckets", shared}, {"scale", shared}, eval_key,  eval_seed_key,
  shuffle_key,         block_key,         window_key};
constexpr DataKey text_keys[]{{"level", shared}, {"tokenizer", shared}};
constexpr DataKey npy_keys[]{{"labels", own},   {"task", shared},
                             {"scale", shared}, eval_key,
                             eval_seed_key,     shuffle_key,
                             block_key,         window_key};
constexpr DataKey tfrecord_keys[]{{"features", inherited},
                                  {"label", inherited},
                                  {"task", shared},
                                  {"shape", shared},
                                  {"size", shared},
                                  {"channels", shared},
                                  {"augment", shared},
                                  {"scale", shared},
                                  eval_key,
                                  eval_seed_key,
                                  shuffle_key,
                                  block_key,
                                  window_key};
constexpr DataKey json_lines_keys[]{{"features", inherited},
                                    {"label", inherited},
                                    {"task", shared},
                                    {"shape", shared},
                                    {"scale", shared},
                                    eval_key,
                                    eval_seed_key,
                                    shuffle_key,
                                    block_key,
                                    window_key};
constexpr DataKey image_folder_keys[]{{"size", shared},
                                      {"channels", shared},
                                      {"augment", shared},
                                      {"scale", shared},
                                      eval_key,
                                      eval_seed_key,
                                      shuffle_key,
                                      block_key,
                                      window_key};
constexpr DataKey digits_keys[]{{"samples", own},  {"seed", own},
                                {"scale", shared}, eval_key,
                                eval_seed_key,     shuffle_key,
                                block_key,         window_key};
constexpr DataKey clicks_keys[]{{"samples", own},    {"seed", own},
                                {"buckets", shared}, {"spread", inherited},
                                {"scale", shared},   eval_key,
                                eval_seed_key,       shuffle_key,
                                block_key,           window_key};
constexpr DataKey drawn_rows_keys[]{{"samples", own},
                                    {"seed", own},
                                    {"order", own},
                                    {"ids", shared},
                                    {"vocabulary", shared},
                                    eval_key,
                                    eval_seed_key,
                                    shuffle_key,
                                    block_key,
                                    window_key};
constexpr DataKey drawn_text_keys[]{{"samples", own}, {"seed", own}};

constexpr DataKind kinds[]{
  {"mnist", "DIR", image_keys, check_split, nullptr, nullptr, read_mnist_spec},
  {"cifar10", "DIR", image_keys, check_split, nullptr, nullptr,
   read_cifar10_spec},
  {"csv", "FILE", csv_keys, check_csv, nullptr, fit_csv, read_csv},
  {"parquet", "FILES", parquet_keys, check_csv, nullptr, fit_csv, read_csv},
  {"libsvm", "FILE", libsvm_keys, check_libsvm, nullptr, fit_libsvm,
   read_libsvm},
  {"criteo", "FILE", criteo_keys, check_criteo, nullptr, nullptr, read_criteo},
  {"text", "FILE", text_keys, check_text, nullptr, fit_text, read_text,
   number_text},
  {"npy", "FILE", npy_keys, check_npy, nullptr, fit_npy, read_npy, nullptr,
   check_npy_labels},
  {"tfrecord", "FILES", tfrecord_keys, check_records, nullptr, fit_records,
   read_tfrecord},
  {"tar", "FILES", tfrecord_keys, check_records, nullptr, fit_records,
   read_tar},
  {"jsonl", "FILES", json_lines_keys, check_records, nullptr, fit_records,
   read_json_lines},
  {"images", "DIR", image_folder_keys, check_records, nullptr, fit_records,
   read_image_folder},
  {"synthetic:digits", "", digits_keys, check_generator, draw_digits, nullptr},
  {"synthetic:clicks", "", clicks_keys, check_clicks, draw_clicks, nullptr},
  {"synthetic:rows", "", drawn_rows_keys, check_rows, draw_rows, nullptr},
  {"synthetic:text", "", drawn_text_keys, check_generator, draw_text, nullptr},
};

/// "synthetic" of "synthetic:digits".
std::string_view family(const DataKind& kind) {
  const std::string_view name{kind.name};
  return name.substr(0, name.find(':'));
}

std::string_view member(const DataKind& kind) {
  const std::string_view name{kind.name};
  const auto colon = name.find(':');
  return colon == name.npos ? std::string_view{} : name.substr(colon + 1);
}

} // namespace

std::string data_kind_names() {
  std::vector<std::string_view> names;
  for (const auto& kind : kinds)
    if (std::find(names.begin(), names.end(), family(kind)) == names.end())
      names.push_back(family(kind));
  std::string result;
  for (auto name : names)
    result += (result.empty() ? "" : ", ") + std::string{name};
  return result;
}

const DataKind& kind_of(const DataSpec& spec) {
  std::string members;
  for (const auto& kind : kinds) {
    if (family(kind) != spec.kind)
      continue;
    if (member(kind).empty() || member(kind) == spec.where)
      return kind;
    members += (members.empty() ? "" : ", ") + std::string{member(kind)};
  }
  if (!members.empty())
    refuse(spec, "nothing " + spec.kind + " is called " + in_quotes(spec.where)
                   + "; there are: " + members
                   + ", and keys follow a ?, as in "
                     "synthetic:digits?samples=1000");
  refuse(spec, "unknown kind " + in_quotes(spec.kind)
                 + "; there are: " + data_kind_names());
}

SplitRule split_rule(const DataSpec& spec) {
  const auto tail = choice_option(spec, "eval", eval_parts) == "tail";
  if (tail && option(spec, "eval_seed"))
    refuse(spec, "eval=tail draws nothing; leave eval_seed out");
  return {tail, whole_option(spec, "eval_seed", 0, 0, any_seed)};
}

MixRule mix_rule(const DataSpec& spec) {
  constexpr uint64_t max_block = uint64_t{1} << 24;
  constexpr uint64_t max_window = 1024;
  MixRule rule;
  const bool blocks = choice_option(spec, "shuffle", shuffles) == "blocks";
  if (blocks) {
    rule.block = static_cast<uint32_t>(
      whole_option(spec, "block", usual_block, 1, max_block));
    rule.window = static_cast<uint32_t>(
      whole_option(spec, "window", usual_window, 1, max_window));
  }
  for (const auto* key : {"block", "window"})
    if (!blocks && option(spec, key))
      refuse(spec, std::string{key} + "= goes with shuffle=blocks alone");
  return rule;
}

DataSpec without_mix(DataSpec spec) {
  std::erase_if(spec.options, [](const auto& option) {
    return option.first == shuffle_key.name || option.first == block_key.name
           || option.first == window_key.name;
  });
  return spec;
}

DataSpec without_split(DataSpec spec) {
  std::erase_if(spec.options, [](const auto& option) {
    return option.first == eval_key.name || option.first == eval_seed_key.name;
  });
  return spec;
}

void check(const DataSpec& spec) {
  const auto& kind = kind_of(spec);
  if (spec.where.empty())
    refuse(spec, "names no " + std::string{kind.where} + "; write " + kind.name
                   + ":" + kind.where);
  std::string known;
  for (const auto& key : kind.keys)
    known += (known.empty() ? "" : ", ") + std::string{key.name};
  for (const auto& [name, value] : spec.options) {
    const auto is_it = [&wanted = name](const DataKey& key) {
      return key.name == wanted;
    };
    if (std::none_of(kind.keys.begin(), kind.keys.end(), is_it))
      refuse(spec, "unknown key " + in_quotes(name) + "; " + kind.name
                     + " knows: " + known);
    if (name == "scale")
      choice_option(spec, name, scales);
  }
  split_rule(spec);
  mix_rule(spec);
  if (kind.check != nullptr)
    kind.check(spec);
}

} // namespace troupe

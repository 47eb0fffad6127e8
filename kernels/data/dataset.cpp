#include "kernels/data/dataset.hpp"

#include "kernels/data/digits.hpp"
#include "kernels/data/idx.hpp"
#include "kernels/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

namespace troupe {

namespace {

constexpr uint64_t default_samples = 60'000;
constexpr uint64_t most_samples = 10'000'000;

constexpr std::array available_kinds{"mnist", "synthetic"};
constexpr std::array later_kinds{"cifar10", "csv",  "libsvm",
                                 "criteo",  "text", "npy"};
constexpr std::array later_synthetics{"clicks", "text"};

constexpr std::array mnist_keys{"split"};
constexpr std::array digits_keys{"samples", "seed"};

using Words = std::span<const char* const>;

bool contains(Words words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string listed(Words words) {
  std::string result;
  for (const auto* word : words)
    result += (result.empty() ? "" : ", ") + std::string{word};
  return result;
}

/// The message stays one line whatever was typed.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (auto c : text)
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + '"';
}

[[noreturn]] void refuse(std::string_view spec, const std::string& what) {
  throw UsageError("data " + quoted(spec) + ": " + what);
}

/// A literal ? cannot be typed as such, since it starts the options.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto next = text.substr(i, 3);
    if (next == "%3F" || next == "%3f") {
      result += '?';
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<std::pair<std::string, std::string>>
parse_options(std::string_view spec, std::string_view text) {
  std::vector<std::pair<std::string, std::string>> result;
  if (text.find('?') != text.npos)
    refuse(spec,
           "a second ?; write %3F for a literal ?, and & between options");
  while (true) {
    const auto end = std::min(text.find('&'), text.size());
    const auto option = text.substr(0, end);
    const auto equals = option.find('=');
    if (equals == option.npos || equals == 0 || equals + 1 == option.size())
      refuse(spec, quoted(option) + " is not of the form key=value");
    auto key = unescaped(option.substr(0, equals));
    for (const auto& earlier : result)
      if (earlier.first == key)
        refuse(spec, "key " + quoted(key) + " occurs twice; keep one");
    result.emplace_back(std::move(key), unescaped(option.substr(equals + 1)));
    if (end == text.size())
      return result;
    text.remove_prefix(end + 1);
  }
}

/// The specification as somebody would type it.
std::string text_of(const DataSpec& spec) {
  auto result = spec.kind + ":" + spec.where;
  auto separator = '?';
  for (const auto& [key, value] : spec.options) {
    result += separator;
    result += key;
    result += '=';
    result += value;
    separator = '&';
  }
  return result;
}

void check_keys(const DataSpec& spec, Words known) {
  for (const auto& [key, value] : spec.options) {
    if (contains(known, key))
      continue;
    if (key == "scale")
      refuse(text_of(spec), "key \"scale\" is not available yet; leave it out");
    refuse(text_of(spec), "unknown key " + quoted(key) + "; " + spec.kind
                            + " knows: " + listed(known));
  }
}

std::optional<std::string> option(const DataSpec& spec, std::string_view key) {
  for (const auto& [name, value] : spec.options)
    if (name == key)
      return value;
  return std::nullopt;
}

uint64_t number(const DataSpec& spec, std::string_view key, uint64_t otherwise,
                uint64_t lowest, uint64_t highest) {
  const auto text = option(spec, key);
  if (!text)
    return otherwise;
  uint64_t result = 0;
  const auto* last = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), last, result);
  if (error != std::errc{} || stop != last || result < lowest
      || result > highest)
    refuse(text_of(spec),
           std::string{key} + "=" + *text + " is not a whole number from "
             + std::to_string(lowest) + " to " + std::to_string(highest));
  return result;
}

std::string split_of(const DataSpec& spec) {
  constexpr std::array splits{"auto", "train", "test"};
  auto result = option(spec, "split").value_or("auto");
  if (!contains(splits, result))
    refuse(text_of(spec), "unknown split " + quoted(result)
                            + "; there are: " + listed(splits));
  return result;
}

struct DigitsOptions {
  uint64_t samples;
  uint64_t seed;
};

DigitsOptions digits_options(const DataSpec& spec) {
  return {number(spec, "samples", default_samples, 1, most_samples),
          number(spec, "seed", 0, 0, std::numeric_limits<uint64_t>::max())};
}

void check_synthetic(const DataSpec& spec) {
  if (contains(later_synthetics, spec.where))
    refuse(text_of(spec), "synthetic:" + spec.where
                            + " is not available yet; use synthetic:digits");
  if (spec.where != "digits")
    refuse(text_of(spec), "nothing synthetic is called " + quoted(spec.where)
                            + "; there is: digits");
  check_keys(spec, digits_keys);
  digits_options(spec);
}

void check(const DataSpec& spec) {
  if (contains(later_kinds, spec.kind))
    refuse(text_of(spec), "kind " + spec.kind + " is not available yet; use "
                            + listed(available_kinds));
  if (!contains(available_kinds, spec.kind))
    refuse(text_of(spec), "unknown kind " + quoted(spec.kind)
                            + "; there are: " + listed(available_kinds));
  if (spec.kind == "synthetic")
    return check_synthetic(spec);
  if (spec.where.empty())
    refuse(text_of(spec), "names no folder; write mnist:DIR");
  check_keys(spec, mnist_keys);
  split_of(spec);
}

} // namespace

BatchMemory::BatchMemory(const Graph& graph, uint32_t max_rows)
  : features_(max_rows * graph.features()),
    ids_(max_rows * graph.ids()),
    labels_(graph.classes() > 0 ? max_rows * graph.labels() : 0),
    targets_(graph.classes() > 0 ? 0 : max_rows * graph.labels()) {}

Batch BatchMemory::batch(uint32_t rows, uint64_t key) const {
  auto given = [](const auto& values) {
    return values.size() > 0 ? values.data() : nullptr;
  };
  Batch batch;
  batch.features = given(features_);
  batch.ids = given(ids_);
  batch.labels = given(labels_);
  batch.targets = given(targets_);
  batch.rows = rows;
  batch.key = key;
  return batch;
}

uint64_t Dataset::samples() const {
  if (shape.label == LabelKind::tokens)
    return window == 0 || tokens.size() <= window
             ? 0
             : (tokens.size() - window - 1) / stride + 1;
  return shape.label == LabelKind::number ? targets.size() : labels.size();
}

void Dataset::gather(const uint32_t* rows, uint32_t count,
                     BatchMemory& out) const {
  const auto width = features();
  for (uint32_t i = 0; i < count; ++i) {
    const size_t row = rows[i];
    if (row >= samples())
      throw std::logic_error("row " + std::to_string(row) + " of "
                             + std::to_string(samples()) + " samples");
    if (!bytes.empty()) {
      const auto* from = bytes.data() + row * width;
      auto* to = out.features() + i * width;
      for (uint64_t k = 0; k < width; ++k)
        to[k] = static_cast<float>(from[k]) * scale;
    } else if (!values.empty()) {
      std::copy_n(values.data() + row * width, width,
                  out.features() + i * width);
    }
    if (!ids.empty())
      std::copy_n(ids.data() + row * shape.ids, shape.ids,
                  out.ids() + size_t{i} * shape.ids);
    switch (shape.label) {
      case LabelKind::tokens: {
        const auto* from = tokens.data() + row * stride;
        std::copy_n(from, window, out.ids() + i * window);
        std::copy_n(from + 1, window, out.labels() + i * window);
        break;
      }
      case LabelKind::number:
        out.targets()[i] = targets[row];
        break;
      case LabelKind::classes:
      case LabelKind::binary:
        out.labels()[i] = labels[row];
    }
  }
}

DataSpec parse_data_spec(const std::string& text) {
  const std::string_view view{text};
  const auto question = std::min(view.find('?'), view.size());
  const auto place = view.substr(0, question);
  const auto colon = place.find(':');
  if (colon == place.npos)
    refuse(view, "is not of the form KIND:WHERE; kinds are: "
                   + listed(available_kinds));
  DataSpec result;
  result.kind = place.substr(0, colon);
  result.where = unescaped(place.substr(colon + 1));
  if (question < view.size())
    result.options = parse_options(view, view.substr(question + 1));
  check(result);
  return result;
}

Dataset load_dataset(const DataSpec& spec) {
  check(spec);
  if (spec.kind == "mnist")
    return read_mnist(spec.where, split_of(spec));
  const auto options = digits_options(spec);
  return synthetic_digits(options.samples, options.seed);
}

SplitData split(Dataset all, double eval_fraction) {
  if (!(eval_fraction >= 0.0 && eval_fraction < 1.0))
    throw UsageError("the fraction held out for evaluation is "
                     + std::to_string(eval_fraction)
                     + "; it must be at least 0 and below 1");
  const auto samples = all.shape.label == LabelKind::tokens ? all.tokens.size()
                                                            : all.samples();
  const auto held_out = static_cast<uint64_t>(
    std::round(eval_fraction * static_cast<double>(samples)));
  const auto kept = samples - held_out;
  if (kept == 0)
    throw InputError(all.name + ": of " + std::to_string(samples)
                     + " samples none is left for training; "
                     + "hold out less or take more samples");
  if (eval_fraction > 0.0 && held_out == 0)
    throw InputError(all.name + ": of " + std::to_string(samples)
                     + " samples none would be held out for evaluation; "
                     + "hold out more or take more samples");
  SplitData result;
  if (held_out > 0) {
    auto eval = std::make_shared<Dataset>();
    eval->name = all.name;
    eval->shape = all.shape;
    eval->scale = all.scale;
    // Moves the tail of `from`, where there is any, to `to`.
    auto cut = [](auto& from, auto& to, uint64_t at) {
      if (from.empty())
        return;
      to.assign(from.begin() + static_cast<ptrdiff_t>(at), from.end());
      from.resize(at);
    };
    cut(all.bytes, eval->bytes, kept * all.features());
    cut(all.values, eval->values, kept * all.features());
    cut(all.ids, eval->ids, kept * all.shape.ids);
    cut(all.labels, eval->labels, kept);
    cut(all.targets, eval->targets, kept);
    cut(all.tokens, eval->tokens, kept);
    result.eval = std::move(eval);
  }
  result.train = std::make_shared<Dataset>(std::move(all));
  return result;
}

void cut_windows(Dataset& data, const Graph& graph, bool evaluation) {
  if (data.shape.label != LabelKind::tokens)
    return;
  data.window = graph.ids();
  data.stride = evaluation ? data.window : 1;
  if (data.samples() == 0)
    throw InputError(data.name + ": " + std::to_string(data.tokens.size())
                     + " characters are fewer than one window of "
                     + std::to_string(data.window)
                     + " and the one that follows; take more text");
}

} // namespace troupe

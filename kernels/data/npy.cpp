#include "kernels/data/npy.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/class_labels.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/npy_array.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace troupe {

namespace {

constexpr std::array tasks{"classes", "regression"};

[[noreturn]] void refuse_item(const NpyArray& array, uint64_t sample) {
  throw InputError(array.path + ": sample " + std::to_string(sample)
                   + " holds a value that is not a finite float32 number; "
                     "mend it, for example with numpy.nan_to_num");
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.15g", value);
  return text.data();
}

float checked(const NpyArray& array, uint64_t i, uint64_t width) {
  const auto value = array.item(i);
  if (!(std::fabs(value) <= std::numeric_limits<float>::max()))
    refuse_item(array, i / width);
  return static_cast<float>(value);
}

void take_features(const NpyArray& array, uint64_t width, Dataset& out) {
  const auto* first = array.data.bytes.data();
  if (array.item_bytes == 1 && array.kind != 'i') {
    const auto* bytes = reinterpret_cast<const uint8_t*>(first);
    out.bytes = {array.data.owner, {bytes, array.data.bytes.size()}};
    return;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(first) % alignof(float) == 0;
  if (array.kind == 'f' && array.item_bytes == 4 && aligned) {
    for (uint64_t i = 0; i < array.items(); ++i)
      checked(array, i, width);
    const auto* floats = reinterpret_cast<const float*>(first);
    out.values = {array.data.owner, {floats, array.items()}};
    return;
  }
  std::vector<float> values(array.items());
  for (uint64_t i = 0; i < values.size(); ++i)
    values[i] = checked(array, i, width);
  out.values = std::move(values);
}

void take_labels(const NpyArray& array, bool numbers, Dataset& out) {
  if (numbers) {
    out.shape.label = LabelKind::number;
    out.targets.resize(array.items());
    for (uint64_t i = 0; i < array.items(); ++i)
      out.targets[i] = checked(array, i, 1);
    return;
  }
  out.labels.resize(array.items());
  for (uint64_t i = 0; i < array.items(); ++i) {
    const auto label = array.item(i);
    if (!(label >= 0 && label <= largest_class) || label != std::floor(label))
      throw InputError(array.path + ": the label of sample " + std::to_string(i)
                       + " is " + number_text(label)
                       + ", not a class from 0 to "
                       + std::to_string(largest_class)
                       + "; number the classes from 0, or add "
                         "task=regression");
    out.labels[i] = static_cast<int32_t>(label);
  }
}

/// One label for each of so many samples.
NpyArray read_labels(const std::string& place, const NpyArray& features,
                     const ReadLimits& limits) {
  auto labels = read_npy_array(one_file(place, limits.store));
  const auto samples = features.shape[0];
  if (labels.shape.empty() || labels.items() != labels.shape[0])
    throw InputError(labels.path + ": has the shape " + to_string(labels.shape)
                     + ", labels are of one extent; save one label a sample");
  if (labels.items() != samples)
    throw InputError(features.path + ": holds " + std::to_string(samples)
                     + " samples, " + labels.path + " "
                     + std::to_string(labels.items())
                     + " labels; take both from the same set");
  return labels;
}

} // namespace

void check_npy(const DataSpec& spec) {
  choice_option(spec, "task", tasks);
}

void check_npy_labels(const DataSpec& spec) {
  if (!option(spec, "labels"))
    refuse(spec, "names no labels; write npy:FILE?labels=FILE");
}

Dataset read_npy(const DataSpec& spec, const ReadLimits& limits) {
  const auto place = option(spec, "labels");
  if (!limits.unlabelled)
    check_npy_labels(spec);
  const auto features = read_npy_array(one_file(spec.where, limits.store));
  if (features.shape.empty() || features.items() == 0)
    throw InputError(features.path
                     + ": holds no samples; is it the right "
                       "file?");
  const auto samples = features.shape[0];
  const auto width = features.items() / samples;
  const bool regression = choice_option(spec, "task", tasks) == "regression";
  Dataset result;
  result.name = "npy:" + spec.where;
  result.shape.features.assign(features.shape.begin() + 1,
                               features.shape.end());
  if (result.shape.features.empty())
    result.shape.features = {1};
  take_features(features, width, result);
  if (place) {
    const auto labels = read_labels(*place, features, limits);
    // Floats are numbers, unless somebody says that they are classes.
    const bool numbers = labels.kind == 'f' && !option(spec, "task");
    take_labels(labels, regression || numbers, result);
  } else {
    take_no_labels(result, samples,
                   regression ? LabelKind::number : LabelKind::classes, 0);
  }
  return result;
}

void fit_npy(const DataSpec&, Dataset& train, Dataset* eval) {
  if (eval != nullptr && !eval->labelled)
    take_no_labels(*eval, eval->samples(), train.shape.label,
                   train.shape.classes);
  if (train.shape.label != LabelKind::classes || !train.labelled)
    return;
  if (eval != nullptr && eval->shape.label != LabelKind::classes)
    throw InputError(eval->name
                     + ": has labels that are no classes, unlike "
                       "the training part; take both from one set");
  fit_classes(train, eval);
}

} // namespace troupe

#include "kernels/data/class_labels.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>

namespace troupe {

int32_t class_label(std::string_view text, const TextLines& lines) {
  const auto label = parse_whole(text);
  if (!label)
    lines.refuse(
      "the label " + in_quotes(text) + " is not a whole number",
      "number the classes from 0; or add task=regression where it is a "
      "number to learn; or is another column the label?");
  if (*label < -1 || *label > largest_class)
    lines.refuse("the label " + in_quotes(text) + " is not a class from 0 to "
                   + std::to_string(largest_class),
                 "number the classes from 0");
  return static_cast<int32_t>(*label);
}

void fit_classes(Dataset& train, Dataset* eval) {
  const auto [low, high] = std::minmax_element(train.labels.begin(),
                                               train.labels.end());
  if (*low < 0)
    throw InputError(train.name + ": has the label " + std::to_string(*low)
                     + "; number the classes from 0");
  train.shape.label = LabelKind::classes;
  train.shape.classes = static_cast<uint32_t>(std::max(*high, 1)) + 1;
  if (eval == nullptr)
    return;
  for (auto label : eval->labels)
    if (label < 0 || label > *high)
      throw InputError(eval->name + ": label " + std::to_string(label)
                       + " of the evaluation part is none of the training "
                         "part's 0 to "
                       + std::to_string(*high)
                       + "; shuffle the file, or take both from one set");
  eval->shape.label = LabelKind::classes;
  eval->shape.classes = train.shape.classes;
}

} // namespace troupe

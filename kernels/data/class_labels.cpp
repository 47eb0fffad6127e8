#include "kernels/data/class_labels.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>

namespace troupe {

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

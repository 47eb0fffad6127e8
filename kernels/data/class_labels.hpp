#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/files/text_lines.hpp"

namespace troupe {

constexpr int32_t largest_class = 65'535;

/// A class index as written in a file; -1 is let through, for data sets of two
/// classes.
/// Errors: InputError with file and line (not whole, below -1, above 65535).
template <class Place> // with refuse(what, advice)
int32_t class_label(std::string_view text, const Place& place) {
  const auto label = parse_whole(text);
  if (!label)
    place.refuse(
      "the label " + in_quotes(text) + " is not a whole number",
      "number the classes from 0; or add task=regression where it is a "
      "number to learn; or is another column the label?");
  if (*label < -1 || *label > largest_class)
    place.refuse("the label " + in_quotes(text) + " is not a class from 0 to "
                   + std::to_string(largest_class),
                 "number the classes from 0");
  return static_cast<int32_t>(*label);
}

/// Makes the largest label of the training part the last class.
/// Errors: InputError (a label below 0; one of the evaluation part above those
/// of the training part).
void fit_classes(Dataset& train, Dataset* eval);

} // namespace troupe

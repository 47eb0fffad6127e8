#include "kernels/graph/model_draft.hpp"

#include "kernels/base/error.hpp"

namespace troupe::kernels {

void Draft::takes(bool holds, const std::string& what) const {
  if (holds)
    return;
  const auto& shape = sample();
  if (shape.label == LabelKind::tokens)
    throw InputError("model " + spec.name + " takes " + what
                     + ", and the data is text; use a language model, such as "
                       "--model llama:L4-H4-K2-D128-T64");
  const auto given =
    (shape.features.empty() ? std::string{"no features"}
                            : "features " + to_string(shape.features))
    + (shape.vocabulary == 0 ? " and no ids"
                             : " and " + std::to_string(shape.ids) + " ids");
  throw InputError("model " + spec.name + " takes " + what
                   + ", but the data has " + given
                   + "; change --model (troupe data info proposes one)");
}

} // namespace troupe::kernels

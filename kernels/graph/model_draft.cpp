#include "kernels/graph/model_draft.hpp"

#include "kernels/base/error.hpp"

namespace troupe::kernels {

void Draft::takes(bool holds, const std::string& what) const {
  if (holds)
    return;
  const auto& shape = sample();
  const auto given = (shape.features.empty()
                        ? std::string{"no features"}
                        : "features " + to_string(shape.features))
                     + (shape.vocabulary == 0 ? " and no ids"
                        : shape.label == LabelKind::tokens
                          ? " and text"
                          : " and " + std::to_string(shape.ids) + " ids");
  throw InputError("model " + spec.name + " takes " + what
                   + ", but the data has " + given
                   + "; change --model (troupe data info proposes one)");
}

} // namespace troupe::kernels

#include "actors/wire/tensor_view.hpp"

#include <algorithm>

namespace troupe {

TensorView TensorView::copy(std::span<const float> values) {
  auto owned = std::make_shared_for_overwrite<float[]>(values.size());
  std::copy(values.begin(), values.end(), owned.get());
  const auto* first = owned.get();
  return {std::move(owned), first, values.size()};
}

} // namespace troupe

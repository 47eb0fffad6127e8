#pragma once

#include "kernels/base/suggestion.hpp"

namespace troupe::kernels {

/// What kinds of operators are called in PyTorch and Keras.
std::span<const ForeignWord> foreign_kinds();
/// The same of their attributes.
std::span<const ForeignWord> foreign_attributes();

} // namespace troupe::kernels

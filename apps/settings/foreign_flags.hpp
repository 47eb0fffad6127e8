#pragma once

#include "kernels/base/suggestion.hpp"

namespace troupe {

/// What flags of training scripts are called elsewhere: those of PyTorch's
/// examples and torchrun, Keras's arguments, Lightning's and Transformers'.
std::span<const ForeignWord> foreign_flags();

} // namespace troupe

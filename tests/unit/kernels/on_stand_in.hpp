#pragma once

#include <cstdlib>

namespace troupe::test {

/// Whether GPU kernels run on the stand-in for CUDA, where each access to
/// memory is checked: models and operands are smaller there, and passes fewer.
inline bool on_stand_in() {
  return std::getenv("CUDA_STAND_IN") != nullptr;
}

} // namespace troupe::test

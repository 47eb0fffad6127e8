#pragma once

#include "kernels/optimizer/optimizer.hpp"

#include <cstdint>

namespace troupe {

/// What an update that is not lazy does to an element whose gradient is 0.
enum class IdleUpdate : uint8_t {
  stays,       ///< nothing, ever
  stays_fresh, ///< nothing while all its gradients have been 0
  moves
};

/// `decays`: whether weight decay holds for the parameter.
IdleUpdate idle_update(const OptimizerOptions& options, bool decays);

} // namespace troupe

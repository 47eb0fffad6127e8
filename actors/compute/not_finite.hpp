#pragma once

#include "actors/wire/messages/reports.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

bool losses_are_finite(const std::vector<LeafLoss>& leaves);

/// The user's line on a step whose gradient, or a leaf of it, is not finite,
/// computed twice; it names the first such leaf.
std::string not_finite_line(uint64_t step, const std::vector<LeafLoss>& leaves);

} // namespace troupe

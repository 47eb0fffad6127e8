#pragma once

#include "apps/doctor/finding.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Trains a few steps of a small model on `count` devices, as `--devices` names
/// them, in a process of its own, and on a processor, and compares their
/// losses. A device that does not answer within a minute is given up.
Finding try_devices(const std::string& devices, uint32_t count);

} // namespace troupe

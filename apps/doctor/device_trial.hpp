#pragma once

#include "apps/doctor/finding.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Trains a few steps of a small model on `count` devices of one kind, as
/// `--devices` names them, in a process of its own, then on a processor, and
/// compares their losses. Each that does not answer within a minute is given
/// up.
Finding try_devices(const std::string& devices, uint32_t count);

} // namespace troupe

#pragma once

#include "kernels/engine/device.hpp"

namespace troupe::kernels {

/// Errors: InputError where the processor, or the instruction set selected,
/// lacks the precision.
std::unique_ptr<Device> make_cpu_device(Precision precision);
/// Errors: as make_cpu_device().
void require_on_cpu(Precision precision);

} // namespace troupe::kernels

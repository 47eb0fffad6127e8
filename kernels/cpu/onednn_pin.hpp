#pragma once

#include "kernels/cpu/isa.hpp"

#include <string>

// What there is of oneDNN besides products and convolutions in bfloat16; a
// build without it has onednn_absent.cpp.

namespace troupe::kernels {

/// Makes oneDNN compute with `isa`, which it fixes at its first use; tells
/// whether it does.
bool pin_onednn(Isa isa);

/// "oneDNN 2.6.3"; empty without it.
std::string onednn_version();

} // namespace troupe::kernels

#pragma once

#include "kernels/cpu/loop_table.hpp"

#include <string>

namespace troupe::kernels {

/// The instruction sets from the least to the most.
enum class Isa : uint8_t { sse4, avx2, avx512 };

/// Tells whether this machine (and its operating system) has `isa`.
bool has_isa(Isa isa);
/// The highest set of this machine.
Isa highest_isa();
const LoopTable& loop_table(Isa isa);
/// Pins oneDNN to the highest set unless select_isa came first; without it,
/// a library's user and `--isa auto` would not be sure of equal bits.
void pin_unless_selected();

} // namespace troupe::kernels

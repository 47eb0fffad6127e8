#pragma once

#include <cstdint>

namespace troupe::kernels {

/// The instruction sets from the least to the most.
enum class Isa : uint8_t { sse4, avx2, avx512 };

/// Tells whether this machine (and its operating system) has `isa`.
bool has_isa(Isa isa);
/// The highest set of this machine.
Isa highest_isa();
/// The set that select_isa chose; before that, of what the machine has.
Isa selected_isa();
/// Makes the own loops compute with `isa`, which the machine has; oneDNN keeps
/// its own.
void select_loops(Isa isa);
const char* name_of(Isa isa);
/// Tells whether oneDNN computes in bfloat16 here, under the selected set.
bool has_bfloat16();
/// Pins oneDNN to the highest set unless select_isa came first; without it,
/// a library's user and `--isa auto` would not be sure of equal bits.
void pin_unless_selected();

} // namespace troupe::kernels

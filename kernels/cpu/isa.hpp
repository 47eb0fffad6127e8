#pragma once

#include <cstdint>

namespace troupe::kernels {

/// The instruction sets, of each family of processors from the least to the
/// most: x86-64's, AArch64's.
enum class Isa : uint8_t { sse4, avx2, avx512, neon };
inline constexpr Isa every_isa[] = {Isa::sse4, Isa::avx2, Isa::avx512,
                                    Isa::neon};

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
/// Tells whether `isa` rounds a product and the sum it goes into at once.
constexpr bool fuses(Isa isa) {
  return isa != Isa::sse4;
}
/// Tells whether this processor has AVX-512 and issues four operations a cycle,
/// as Intel's before Ice Lake do: then tiles of products have other shapes.
bool issues_four();
/// Has products take the shapes of those, or of the others; the bits are equal.
void assume_issues_four(bool four);
/// Tells whether oneDNN computes in bfloat16 here, under the selected set.
bool has_bfloat16();
/// Pins oneDNN to the highest set unless select_isa came first; without it,
/// a library's user and `--isa auto` would not be sure of equal bits.
void pin_unless_selected();

} // namespace troupe::kernels

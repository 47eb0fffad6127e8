#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe::test {

/// Tells whether TROUPE_BITS names a file. Then results are recorded rather
/// than held against float64, which takes an emulator hours: builds that record
/// the same have the same results, and one of them passes its tests.
bool records_bits();

/// Adds a line, "TEST-CASE WHAT SHA-256" of the bytes one after the other, to
/// the file that TROUPE_BITS names, if it names one and the highest instruction
/// set of this machine is selected. What two builds of one numeric class record
/// is the same (tests/aarch64).
void record_bits(const std::string& what,
                 const std::vector<std::span<const std::byte>>& values);

template <class... Vectors>
void record_bits_of(const std::string& what, const Vectors&... values) {
  record_bits(what, {std::as_bytes(std::span{values})...});
}

} // namespace troupe::test

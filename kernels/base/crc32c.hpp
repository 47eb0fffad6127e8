#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// Continues a CRC-32C (Castagnoli, reflected, as in iSCSI and ext4) over more
/// bytes; 0 begins one. crc32c(crc32c(0, a), b) is that of a and b in a row.
/// Source: RFC 3720, section 12.1; examples in its appendix B.4.
uint32_t crc32c(uint32_t crc, const void* bytes, size_t size);

namespace kernels {

/// One way to compute crc32c; equal values from all.
struct Crc32cWay {
  const char* name;
  uint32_t (*compute)(uint32_t crc, const void* bytes, size_t size);
};

/// Those that this machine has, the fastest last.
std::vector<Crc32cWay> crc32c_ways();

} // namespace kernels

} // namespace troupe

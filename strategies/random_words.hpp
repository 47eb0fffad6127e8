#pragma once

#include <cstdint>

namespace troupe::strategies {

inline constexpr uint64_t golden = 0x9e3779b97f4a7c15;

/// A bijection of 64-bit words in which each output bit depends on each input
/// bit. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators" (OOPSLA 2014), with the constants of Stafford's variant 13.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns floor(x bound / 2^64): a number below `bound`. No value is likelier
/// than another by more than bound / 2^64.
constexpr uint64_t below(uint64_t bound, uint64_t x) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{x} * bound >> 64);
}

} // namespace troupe::strategies

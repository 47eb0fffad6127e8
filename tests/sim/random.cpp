#include "tests/sim/runtime_parts.hpp"

namespace troupe::sim {

uint64_t Random::next() {
  auto x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace troupe::sim

#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// A number of which every bit arrives; CAF would spoil subnormals.
template <class Number>
struct Bits {
  Bits() = default;
  Bits(Number number) : value(number) {} // a number in all but how it travels
  operator Number() const { return value; }
  Number value = 0;
};

template <class Inspector, class Number>
bool inspect(Inspector& f, Bits<Number>& x) {
  using Raw = std::conditional_t<sizeof(Number) == 4, uint32_t, uint64_t>;
  auto raw = std::bit_cast<Raw>(x.value);
  auto ok = f.apply(raw);
  x.value = std::bit_cast<Number>(raw);
  return ok;
}

} // namespace troupe

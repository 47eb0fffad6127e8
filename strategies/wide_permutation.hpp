#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe {

/// A permutation of the numbers below `size`, each of which is found alone: for
/// more of them than a shuffle finds memory for. A pure function of the key.
/// Source: Black, Rogaway, "Ciphers with Arbitrary Finite Domains" (CT-RSA
/// 2002): the generalised Feistel cipher, whose domain is a little larger, and
/// walks through what lies beyond.
class WidePermutation {
public:
  /// Errors: a size of 0, or above 2^63, is a bug and asserts.
  WidePermutation(uint64_t key, uint64_t size);

  uint64_t size() const { return size_; }
  uint64_t at(uint64_t position) const;
  /// at(position_of(number)) == number.
  uint64_t position_of(uint64_t number) const;

private:
  static constexpr size_t rounds = 8;

  uint64_t forth(uint64_t x) const;
  uint64_t back(uint64_t x) const;

  uint64_t size_;
  std::array<uint64_t, 2> sides_; ///< of the domain, whose product is >= size
  std::array<uint64_t, rounds> keys_;
};

} // namespace troupe

#pragma once

#include <cstdint>
#include <utility>

namespace troupe {

/// The chunks into which members cut a range of elements, at multiples of their
/// length, to claim them one by one. Each member has a run of them that it
/// claims from first.
struct Chunks {
  using Range = std::pair<uint64_t, uint64_t>;
  static constexpr uint64_t line = 16; ///< elements of a cache line

  Chunks(Range range, uint32_t members);

  /// Elements of a chunk.
  Range operator[](uint64_t chunk) const;
  /// Chunks of a member's run: from .first until .second.
  Range run(uint32_t member) const;

  Range range;
  uint32_t members;
  uint64_t length; ///< elements
  uint64_t first;  ///< in lengths
  uint64_t number;
};

/// Takes the next of `number` chunks of a member's run of range `ordinal`.
/// `claimed` holds the ordinal of the newest range that chunks were taken of
/// and, in its lower 16 bits, how many.
bool claim_chunk(uint64_t& claimed, uint64_t ordinal, uint64_t number,
                 uint64_t& chunk);

} // namespace troupe

#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Counter-based random numbers: element i of a stream is mix(key + i *
/// golden), SplitMix64's i-th number, so any element is reached directly and
/// nothing depends on who draws it.
/// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC
/// 2011, for the idea; their generators are others.
constexpr uint64_t golden = 0x9e3779b97f4a7c15u;

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; constants of
/// Stafford's variant 13): a bijection whose output bits all depend on all
/// input bits.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The key of one of the streams below a key.
constexpr uint64_t stream_key(uint64_t key, uint64_t stream) {
  return mix(mix(key + golden) ^ (stream + 1) * golden);
}

/// Element `i` of a stream: 64 random bits.
constexpr uint64_t random_bits(uint64_t key, uint64_t i) {
  return mix(key + i * golden);
}

/// What a micro-batch's dropout is drawn from (Batch::key).
constexpr uint64_t batch_key(uint64_t seed, uint64_t step, uint64_t rank) {
  return stream_key(stream_key(stream_key(seed, 0x64726f70), step), rank);
}

} // namespace troupe::kernels

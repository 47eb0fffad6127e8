#pragma once

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t wide = uint32_t{x.bits} << 16;
  float result;
  memcpy(&result, &wide, sizeof result);
  return result;
}

/// To the nearest, ties to even; any NaN becomes the one of all ones, as on a
/// GPU.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return {0x7fff};
  bits += 0x7fffu + (bits >> 16 & 1);
  return {static_cast<uint16_t>(bits >> 16)};
}

inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}

#pragma once

// The intrinsics of the processor that is compiled for.
#if defined(__x86_64__)
#  include <immintrin.h>
#elif defined(__aarch64__)
#  include <arm_acle.h>
#  include <arm_neon.h>
#else
#  error "own loops are written for x86-64 and AArch64"
#endif

namespace troupe::kernels {

/// Tells the core that this thread turns in a loop until another one writes.
inline void pause_core() {
#if defined(__x86_64__)
  _mm_pause();
#else
  // Most cores take no time over `yield`.
  asm volatile("isb" ::: "memory");
#endif
}

} // namespace troupe::kernels

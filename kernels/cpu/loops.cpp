#include "kernels/cpu/loop_table.hpp"

#include <immintrin.h>

// One leaf file, compiled once per instruction set. Tables of functions rather
// than ifunc or target_clones: --isa must be able to pin a set, and clones
// crash under the thread sanitizer. Vector types rather than loops left to the
// vectoriser: at -O2 it leaves loops of unknown length alone.

#define DO_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#  define BEGIN_TARGET(names) \
    DO_PRAGMA(clang attribute push(__attribute__((target(names))), \
                                   apply_to = function))
#  define END_TARGET DO_PRAGMA(clang attribute pop)
#else
#  define BEGIN_TARGET(names) \
    DO_PRAGMA(GCC push_options) \
    DO_PRAGMA(GCC target(names))
#  define END_TARGET DO_PRAGMA(GCC pop_options)
#endif

#define TABLE(isa) \
  { \
    isa, add, all_finite, bias_forward, bias_backward, exp_shifted, softmax, \
      sgd, momentum, nesterov, adam, adagrad, rmsprop \
  }

namespace troupe::kernels {

namespace sse4 {
BEGIN_TARGET("sse4.2")
#define LANES 4
#define SQRT(v) _mm_sqrt_ps(v)
#include "kernels/cpu/loops_leaf.inc"
#undef LANES
#undef SQRT
END_TARGET
} // namespace sse4

namespace avx2 {
BEGIN_TARGET("avx2")
#define LANES 8
#define SQRT(v) _mm256_sqrt_ps(v)
#include "kernels/cpu/loops_leaf.inc"
#undef LANES
#undef SQRT
END_TARGET
} // namespace avx2

namespace avx512 {
BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl")
#define LANES 16
// Not _mm512_sqrt_ps: GCC 12 warns about its undefined operand.
#define SQRT(v) _mm512_maskz_sqrt_ps(0xffff, v)
#include "kernels/cpu/loops_leaf.inc"
#undef LANES
#undef SQRT
END_TARGET
} // namespace avx512

namespace sse4 {
constexpr LoopTable table = TABLE("sse4");
}
namespace avx2 {
constexpr LoopTable table = TABLE("avx2");
}
namespace avx512 {
constexpr LoopTable table = TABLE("avx512");
}

const LoopTable loops_sse4 = sse4::table;
const LoopTable loops_avx2 = avx2::table;
const LoopTable loops_avx512 = avx512::table;

} // namespace troupe::kernels

#include "kernels/cpu/isa.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/intrinsics.hpp"
#include "kernels/cpu/onednn_pin.hpp"
#include "kernels/engine/replica.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cfenv>
#include <iterator>

namespace troupe {

namespace kernels {

namespace {

std::atomic<Isa>& selected() {
  static std::atomic<Isa> isa = highest_isa();
  return isa;
}

bool is_before_ice_lake() {
#if defined(__x86_64__)
  return has_isa(Isa::avx512) && !__builtin_cpu_supports("avx512vbmi2");
#else
  return false;
#endif
}

std::atomic<bool>& four_a_cycle() {
  static std::atomic<bool> four = is_before_ice_lake();
  return four;
}

/// Denormals are kept: flushing would make bits depend on the thread.
void keep_denormals() {
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
  _mm_setcsr(_mm_getcsr() & ~0x0040u); // denormals are zero: off
#else
  // FPCR, Arm's architecture reference: FIZ, AH, FZ16, FZ, and DN, which makes
  // one NaN of all. Writing it takes long.
  constexpr uint64_t bits = 1 | 2 | 1u << 19 | 1u << 24 | 1u << 25;
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  if ((control & bits) != 0)
    asm volatile("msr fpcr, %0" ::"r"(control & ~bits));
#endif
}

} // namespace

bool has_isa(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::sse4:
      return __builtin_cpu_supports("sse4.2");
    case Isa::avx2:
      // oneDNN's avx2 kernels take FMA for granted.
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f")
             && __builtin_cpu_supports("avx512bw")
             && __builtin_cpu_supports("avx512dq")
             && __builtin_cpu_supports("avx512vl");
    case Isa::neon:
      return false;
  }
  return false;
#else
  return isa == Isa::neon;
#endif
}

Isa highest_isa() {
  for (auto isa : {Isa::neon, Isa::avx512, Isa::avx2})
    if (has_isa(isa))
      return isa;
  return Isa::sse4;
}

Isa selected_isa() {
  return selected().load(std::memory_order_relaxed);
}

void select_loops(Isa isa) {
  selected().store(isa, std::memory_order_relaxed);
}

bool issues_four() {
  return four_a_cycle().load(std::memory_order_relaxed);
}

void assume_issues_four(bool four) {
  four_a_cycle().store(four, std::memory_order_relaxed);
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::sse4:
      return "sse4";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::neon:
      return "neon";
  }
  return "sse4";
}

void pin_unless_selected() {
  // Refused after select_isa: then that holds.
  pin_onednn(highest_isa());
}

} // namespace kernels

std::string select_isa(const std::string& name) {
  using namespace kernels;
  auto isa = highest_isa();
  if (name != "auto") {
    const auto* at = std::begin(every_isa);
    while (at != std::end(every_isa) && name != name_of(*at))
      ++at;
    if (at == std::end(every_isa))
      throw UsageError("--isa " + name
                       + ": unknown instruction set; use auto, sse4, avx2, "
                         "avx512 or neon");
    isa = *at;
  }
  if (!has_isa(isa))
    throw InputError("--isa " + name + ": this machine lacks it; use "
                     + std::string{name_of(highest_isa())} + " or auto");
  if (!pin_onednn(isa))
    throw InputError("--isa " + name
                     + ": this process computes with another instruction set "
                       "already; select one before anything is computed");
  select_loops(isa);
  return name_of(isa);
}

void prepare_compute_thread() {
  std::fesetround(FE_TONEAREST);
  kernels::keep_denormals();
  // oneDNN gives other bits for other thread counts. Which OpenMP it was linked
  // with, GCC's or LLVM's, is found out here: the compiler of this file may
  // come with another one, or with none.
  using SetThreads = void (*)(int);
  static const auto set_threads =
    reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads != nullptr)
    set_threads(1);
}

} // namespace troupe

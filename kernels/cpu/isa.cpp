#include "kernels/cpu/isa.hpp"

#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"

#include <dlfcn.h>
#include <immintrin.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <atomic>
#include <cfenv>

namespace troupe {

namespace kernels {

namespace {

std::atomic<Isa>& selected() {
  static std::atomic<Isa> isa = highest_isa();
  return isa;
}

dnnl::cpu_isa dnnl_isa(Isa isa) {
  switch (isa) {
    case Isa::sse4:
      return dnnl::cpu_isa::sse41;
    case Isa::avx2:
      return dnnl::cpu_isa::avx2;
    case Isa::avx512:
      return __builtin_cpu_supports("avx512bf16")
               ? dnnl::cpu_isa::avx512_core_bf16
               : dnnl::cpu_isa::avx512_core;
  }
  return dnnl::cpu_isa::sse41;
}

} // namespace

bool has_isa(Isa isa) {
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
  }
  return false;
}

Isa highest_isa() {
  for (auto isa : {Isa::avx512, Isa::avx2})
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

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::sse4:
      return "sse4";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "sse4";
}

bool has_bfloat16() {
  return selected_isa() == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
}

void pin_unless_selected() {
  // Refused after select_isa: then that holds.
  dnnl::set_max_cpu_isa(dnnl_isa(highest_isa()));
  dnnl::get_effective_cpu_isa();
}

} // namespace kernels

std::string select_isa(const std::string& name) {
  using namespace kernels;
  Isa isa = Isa::sse4;
  if (name == "auto")
    isa = highest_isa();
  else if (name == "avx512")
    isa = Isa::avx512;
  else if (name == "avx2")
    isa = Isa::avx2;
  else if (name != "sse4")
    throw UsageError("--isa " + name
                     + ": unknown instruction set; use auto, sse4, avx2 or "
                       "avx512");
  if (!has_isa(isa))
    throw InputError("--isa " + name + ": this machine lacks it; use "
                     + std::string{name_of(highest_isa())} + " or auto");
  // oneDNN fixes its set at its first use, which asking it is, and refuses to
  // change it after.
  dnnl::set_max_cpu_isa(dnnl_isa(isa));
  if (dnnl::get_effective_cpu_isa() != dnnl_isa(isa))
    throw InputError("--isa " + name
                     + ": this process computes with another instruction set "
                       "already; select one before anything is computed");
  select_loops(isa);
  return name_of(isa);
}

void prepare_compute_thread() {
  std::fesetround(FE_TONEAREST);
  // Denormals are kept: flushing would make bits depend on the thread.
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
  _mm_setcsr(_mm_getcsr() & ~0x0040u); // denormals are zero: off
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

#include "kernels/cpu/onednn_pin.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::kernels {

namespace {

dnnl::cpu_isa dnnl_isa(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return dnnl::cpu_isa::avx2;
    case Isa::avx512:
      return __builtin_cpu_supports("avx512bf16")
               ? dnnl::cpu_isa::avx512_core_bf16
               : dnnl::cpu_isa::avx512_core;
    case Isa::sse4:
    case Isa::neon:
      break;
  }
  return dnnl::cpu_isa::sse41;
}

} // namespace

bool pin_onednn(Isa isa) {
  // Asking for the set is a first use as well.
  dnnl::set_max_cpu_isa(dnnl_isa(isa));
  return dnnl::get_effective_cpu_isa() == dnnl_isa(isa);
}

std::string onednn_version() {
  const auto* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "."
         + std::to_string(version->minor) + "."
         + std::to_string(version->patch);
}

bool has_bfloat16() {
  return selected_isa() == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
}

} // namespace troupe::kernels

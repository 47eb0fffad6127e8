#include "actors/wire/version.hpp"

#include "apps/settings/commands.hpp"
#include "kernels/engine/replica.hpp"

#include <caf/config.hpp>

#include <cstdio>

namespace troupe {

namespace {

std::string compiler() {
#if defined(__clang__)
  return "Clang " + std::to_string(__clang_major__) + "."
         + std::to_string(__clang_minor__) + "."
         + std::to_string(__clang_patchlevel__);
#else
  return "GCC " + std::to_string(__GNUC__) + "."
         + std::to_string(__GNUC_MINOR__) + "."
         + std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

} // namespace

int run_version(const Settings& settings) {
  const auto isa = select_isa(settings.job.isa);
  const auto devices = cuda_device_count();
  const auto cuda = devices == 0 ? why_no_cuda()
                                 : std::to_string(devices) + " usable devices";
  std::printf("troupe     %s\n"
              "compiler   %s\n"
              "CAF        %d.%d.%d\n"
              "libraries  %s\n"
              "isa        %s\n"
              "class      %s\n"
              "CUDA       %s\n",
              version, compiler().c_str(), CAF_MAJOR_VERSION, CAF_MINOR_VERSION,
              CAF_PATCH_VERSION, library_versions().c_str(), isa.c_str(),
              numeric_class({}, Precision::float32).c_str(), cuda.c_str());
  return 0;
}

} // namespace troupe

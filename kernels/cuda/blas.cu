#include "kernels/cuda/blas.cuh"
#include "kernels/error.hpp"

#include <dlfcn.h>

#include <string>

namespace troupe::kernels {

namespace {

#define TROUPE_TEXT(x) #x
#define TROUPE_NAME(x) TROUPE_TEXT(x)

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw InputError(std::string{"cuBLAS has no function "} + name
                     + "; install the version that this build was made for");
}

Blas load() {
  const std::string file = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  auto* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw InputError("cannot load " + file
                     + ": install CUDA's libraries, or put their folder into "
                       "LD_LIBRARY_PATH");
  Blas found{};
  // The header renames functions (cublasCreate is cublasCreate_v2).
  find(library, TROUPE_NAME(cublasCreate), found.create);
  find(library, TROUPE_NAME(cublasDestroy), found.destroy);
  find(library, TROUPE_NAME(cublasSetStream), found.set_stream);
  find(library, TROUPE_NAME(cublasSetWorkspace), found.set_workspace);
  find(library, TROUPE_NAME(cublasSetMathMode), found.set_math_mode);
  find(library, TROUPE_NAME(cublasSetAtomicsMode), found.set_atomics_mode);
  find(library, TROUPE_NAME(cublasSgemm), found.sgemm);
  find(library, TROUPE_NAME(cublasGetProperty), found.get_property);
  find(library, TROUPE_NAME(cublasGetStatusString), found.status_text);
  return found;
}

} // namespace

const Blas& blas() {
  static const Blas loaded = load();
  return loaded;
}

} // namespace troupe::kernels

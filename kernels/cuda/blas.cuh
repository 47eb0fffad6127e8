#pragma once

#include <cublas_v2.h>

namespace troupe::kernels {

/// cuBLAS, loaded when the first GPU replica is made: linked, its 94 KiB of
/// static thread-local storage would be taken from every thread's stack in
/// every process (a web server's threads of 100 KiB no longer start: seen), and
/// each process would spend 0.1 s on loading it.
struct Blas {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetAtomicsMode) set_atomics_mode;
  decltype(&cublasSgemm) sgemm;
  decltype(&cublasGetProperty) get_property;
  decltype(&cublasGetStatusString) status_text;
};

/// Errors: InputError when the library or a function of it is not found.
const Blas& blas();

} // namespace troupe::kernels

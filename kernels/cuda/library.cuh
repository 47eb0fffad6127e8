#pragma once

#include <string>

namespace troupe::kernels {

/// A library of CUDA's, loaded when first needed: linked, cuBLAS's 94 KiB of
/// static thread-local storage would be taken from every thread's stack in
/// every process (a web server's threads of 100 KiB no longer start: seen), and
/// each process would spend 0.1 s on loading it.
class CudaLibrary {
public:
  /// Looks where the linker looks, in the toolkit (CUDA_HOME, CUDA_PATH,
  /// /usr/local/cuda) and in the Python environments of VIRTUAL_ENV and of the
  /// python3 on PATH, whose packages of NVIDIA hold the same files.
  /// Errors: InputError that lists where it looked.
  CudaLibrary(const std::string& title, const std::string& file);

  /// Errors: InputError when the library has no function of the name.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
  }

  /// Loads a library that another one wants, so that it is there by name;
  /// no error where it is not found.
  static void prepare(const std::string& file);

private:
  void* symbol(const char* name) const;

  std::string title_;
  void* library_ = nullptr;
};

} // namespace troupe::kernels

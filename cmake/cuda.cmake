# TROUPE_CUDA=AUTO|ON|OFF decides TROUPE_HAVE_CUDA. Machine code for 8.0 and 9.0,
# and PTX for what comes later.

set(TROUPE_HAVE_CUDA OFF)
if(NOT TROUPE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(TROUPE_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda
                 PATH_SUFFIXES bin)
    mark_as_advanced(TROUPE_NVCC)
    if(TROUPE_NVCC)
      set(CMAKE_CUDA_COMPILER "${TROUPE_NVCC}")
    endif()
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual CACHE STRING
        "CUDA architectures")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # nvcc takes C++20 from 12.0 on; CMake learns that in 3.26.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    # Kernels call the same constexpr functions as the host.
    add_compile_options(
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-fPIC,-ffp-contract=off>")
    find_package(CUDAToolkit REQUIRED)
    set(TROUPE_HAVE_CUDA ON)
  elseif(TROUPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TROUPE_CUDA=ON, but no CUDA compiler was found: "
                        "put nvcc on PATH or set CUDACXX")
  endif()
endif()
message(STATUS "CUDA kernels: ${TROUPE_HAVE_CUDA}")

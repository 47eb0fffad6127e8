# One set of instructions and of floating-point rules for every file: mixing them
# between translation units would break both the one definition rule and the
# promise of equal bits. How hard the compiler tries may differ
# (troupe_quick_to_compile).

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# The oldest that can build Troupe. The libFuzzer targets make do with less.
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
   OR (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT TROUPE_FUZZ
       AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16))
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} "
                      "${CMAKE_CXX_COMPILER_VERSION}: use GCC 12 or clang 16, or a later one")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")

# Libraries and programs get the same code model, so that they share one
# precompiled header; the linker still makes programs position independent.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
add_link_options(-pie -Wl,--as-needed)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2>)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # char as on x86-64.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsigned-char>)
endif()
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-math-errno>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>"
  # GCC 12 sees overlapping copies, and some out of bounds, in plain string
  # concatenation at -O3.
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>"
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
# Several sources are one unit (troupe_unity): an unnamed namespace of any of them
# is still that unit's own.
if(TROUPE_UNITY)
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endif()
# For every target: those that share a precompiled header must agree on it.
add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:TROUPE_VERSION="${PROJECT_VERSION}">)
# Sanitizers have checks of their own, and fuzz targets are built with them.
if(NOT TROUPE_SANITIZE AND NOT TROUPE_FUZZ)
  file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/hardening_flags" hardening REGEX "^-")
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64") # its name for that
    list(TRANSFORM hardening REPLACE "^-fcf-protection$" "-mbranch-protection=standard")
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Debug") # libc's checks need optimization
    list(FILTER hardening EXCLUDE REGEX "FORTIFY")
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${hardening}>")
  add_link_options(-Wl,-z,relro,-z,now)
endif()
if(TROUPE_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

# More would take twice as long to compile; the simulators want some speed.
if(TROUPE_SANITIZE)
  add_compile_options(-O1)
endif()
if(TROUPE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(TROUPE_SANITIZE)
  message(FATAL_ERROR "TROUPE_SANITIZE is '${TROUPE_SANITIZE}': "
                      "use address, thread or nothing")
endif()

# ccache, told how to treat precompiled headers and to let a second checkout
# share the first one's results.
find_program(TROUPE_CCACHE ccache)
mark_as_advanced(TROUPE_CCACHE)
if(TROUPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${TROUPE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

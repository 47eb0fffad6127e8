# Finds CAF where cmake/setup put it, unless CMAKE_PREFIX_PATH or CAF_DIR already
# names one.

if(CAF_DIR AND NOT EXISTS "${CAF_DIR}/CAFConfig.cmake")
  unset(CAF_DIR CACHE) # the cache was emptied since
endif()
if(NOT CAF_DIR)
  set(variant)
  set(hint "cmake/setup")
  if(TROUPE_SANITIZE STREQUAL "thread")
    set(variant --tsan)
    string(APPEND hint " --tsan")
  endif()
  set(builder "CXX=${CMAKE_CXX_COMPILER}")
  if(TROUPE_FUZZ)
    set(builder --unset=CXX) # clang links the usual compiler's as well
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env "${builder}"
            "${PROJECT_SOURCE_DIR}/cmake/setup" --print-caf ${variant}
    OUTPUT_VARIABLE caf_prefix OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE caf_absent)
  # Later entries lose: a CAF on CMAKE_PREFIX_PATH wins over the cached one.
  list(APPEND CMAKE_PREFIX_PATH "${caf_prefix}")
endif()
find_package(OpenSSL REQUIRED) # CAF's own configuration takes it for granted
find_package(CAF 0.18.7 QUIET)
if(NOT CAF_FOUND)
  message(FATAL_ERROR "CAF 0.18.7 or newer was not found: run "
                      "'${hint}' once, or set CMAKE_PREFIX_PATH")
endif()
message(STATUS "CAF ${CAF_VERSION} in ${CAF_DIR}")

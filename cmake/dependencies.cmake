# Every library Troupe links. Read by its own build and, installed beside
# troupe-config.cmake, by whoever links an installed Troupe.

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(CURL 7.85 REQUIRED)
find_package(CAF REQUIRED)
find_package(tomlplusplus REQUIRED)

# Debian's CMake files for these ask for more than their packages bring (OpenCL,
# curl), so they are looked up by name.
function(troupe_external name header)
  if(TARGET troupe_external::${name})
    return()
  endif()
  string(TOUPPER "TROUPE_${name}" variable)
  find_path(${variable}_INCLUDE NAMES ${header} REQUIRED)
  mark_as_advanced(${variable}_INCLUDE)
  add_library(troupe_external::${name} INTERFACE IMPORTED)
  set_target_properties(troupe_external::${name} PROPERTIES
                        INTERFACE_INCLUDE_DIRECTORIES "${${variable}_INCLUDE}")
  foreach(library IN LISTS ARGN)
    string(TOUPPER "TROUPE_${library}_LIBRARY" variable)
    string(REPLACE "-" "_" variable "${variable}")
    find_library(${variable} NAMES ${library} REQUIRED)
    mark_as_advanced(${variable})
    set_property(TARGET troupe_external::${name} APPEND PROPERTY
                 INTERFACE_LINK_LIBRARIES "${${variable}}")
  endforeach()
endfunction()

if(TROUPE_ONEDNN)
  troupe_external(dnnl dnnl.hpp dnnl)
endif()
troupe_external(zstd zstd.h zstd)
troupe_external(pcre2 pcre2.h pcre2-8)
troupe_external(utf8proc utf8proc.h utf8proc)
troupe_external(hwy hwy/highway.h hwy)
troupe_external(prometheus prometheus/registry.h
                prometheus-cpp-core)

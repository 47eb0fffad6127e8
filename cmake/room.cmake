# troupe_room(NAME [LINK target…]): the static library troupe::NAME from all
# sources below the current folder. A room without sources is an INTERFACE
# library, so that the tree configures at any stage.

set(TROUPE_CAF_HEADERS <caf/all.hpp> <caf/io/all.hpp>)

function(troupe_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;LINK")
  set(target troupe_${name})
  set(folder "${CMAKE_CURRENT_SOURCE_DIR}")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${folder}/*.hpp")
  if(room_SOURCES)
    set(sources ${room_SOURCES})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  endif()
  set(scope PUBLIC)
  if(sources)
    add_library(${target} STATIC ${sources})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(troupe::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_sources(${target} ${scope} FILE_SET HEADERS
                 BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${headers})
  target_link_libraries(${target} ${scope} ${room_LINK})
  troupe_unity(${target})
endfunction()

# troupe_unity(TARGET): compiles TARGET's sources folder by folder in a few units,
# because what a source includes and instantiates costs more than its own code.
# A kernel that is compiled once for each instruction set stays alone, for its
# copies are told apart by macros, and so does what TROUPE_REPLACED names.
# -DTROUPE_UNITY=OFF compiles each source alone. CMake's own unity builds name files
# by their full path, so that two checkouts would not share what ccache keeps.
set(TROUPE_UNIT_SOURCES 8)
function(troupe_unity target)
  get_target_property(type ${target} TYPE)
  if(NOT TROUPE_UNITY OR type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(alone)
  set(folders)
  foreach(source IN LISTS sources)
    set(per_isa)
    if(source MATCHES "^/.*\\.cpp$" AND EXISTS "${source}")
      file(STRINGS "${source}" per_isa REGEX "^#include .*per_isa\\.inc")
    endif()
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${source}" ours)
    get_source_file_property(own_way "${source}" SKIP_PRECOMPILE_HEADERS)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
               OUTPUT_VARIABLE name)
    if(NOT ours OR NOT source MATCHES "\\.cpp$" OR per_isa OR own_way
       OR source MATCHES "/kernels/cuda/" # beside CUDA's own sources
       OR name IN_LIST TROUPE_REPLACED)
      list(APPEND alone "${source}")
      continue()
    endif()
    set(source "${name}")
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND in_${folder} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(units)
  foreach(folder IN LISTS folders)
    list(LENGTH in_${folder} count)
    math(EXPR parts
         "(${count} + ${TROUPE_UNIT_SOURCES} - 1) / ${TROUPE_UNIT_SOURCES}")
    set(index 0)
    set(written)
    foreach(source IN LISTS in_${folder})
      math(EXPR part "${index} * ${parts} / ${count}")
      string(APPEND text_${folder}_${part} "#include \"${source}\"\n")
      list(APPEND of_${folder}_${part} "${PROJECT_SOURCE_DIR}/${source}")
      list(APPEND written ${folder}_${part})
      math(EXPR index "${index} + 1")
    endforeach()
    list(REMOVE_DUPLICATES written)
    foreach(name IN LISTS written)
      set(unit "${CMAKE_CURRENT_BINARY_DIR}/units/${target}/${name}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text_${name}}" @ONLY)
      set_source_files_properties("${unit}" PROPERTIES
                                  OBJECT_DEPENDS "${of_${name}}")
      list(APPEND units "${unit}")
    endforeach()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${alone} ${units})
endfunction()

# What most sources include, and what it costs to parse anew for each of them.
set(TROUPE_STANDARD_HEADERS
  <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <optional> <random> <set> <span> <string>
  <thread> <utility> <vector>)

# Lets ccache see through TARGET's precompiled header, and find that two of them
# are the same.
function(troupe_cache_precompiled target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# troupe_precompile(TARGET <header>…): a precompiled header of TARGET's own for
# its C++ sources: the standard ones and these.
function(troupe_precompile target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  foreach(header IN LISTS TROUPE_STANDARD_HEADERS ARGN)
    # A header's closing bracket would end the expression.
    string(REPLACE ">" "$<ANGLE-R>" header "${header}")
    target_precompile_headers(${target} PRIVATE
                              "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  troupe_cache_precompiled(${target})
endfunction()

# troupe_precompile_caf(TARGET [FROM OTHER]): precompiled CAF headers, TARGET's own or
# those of OTHER, whose optimization it then has to share.
function(troupe_precompile_caf target)
  cmake_parse_arguments(PARSE_ARGV 1 caf "" "FROM" "")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  if(caf_FROM)
    target_precompile_headers(${target} REUSE_FROM ${caf_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${TROUPE_CAF_HEADERS})
  endif()
  troupe_cache_precompiled(${target})
endfunction()

# troupe_quick_to_compile(TARGET): what TARGET does itself is little, so it is
# compiled for the compiler's time.
function(troupe_quick_to_compile target)
  target_compile_options(${target} PRIVATE
                         $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

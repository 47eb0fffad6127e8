# troupe_room(NAME [LINK target…]): the static library troupe::NAME from all
# sources below the current folder. A room without sources is an INTERFACE
# library, so that the tree configures at any stage.

set(TROUPE_CAF_HEADERS <caf/all.hpp> <caf/io/all.hpp> <caf/openssl/all.hpp>)

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
endfunction()

# Gives TARGET the precompiled CAF headers: troupe_actors makes them, others
# share them.
function(troupe_precompile_caf target)
  get_target_property(type troupe_actors TYPE)
  get_target_property(own_type ${target} TYPE)
  if(own_type STREQUAL "INTERFACE_LIBRARY" OR type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  if(target STREQUAL "troupe_actors")
    target_precompile_headers(${target} PRIVATE ${TROUPE_CAF_HEADERS})
  else()
    target_precompile_headers(${target} REUSE_FROM troupe_actors)
  endif()
  # ccache needs these to see through a precompiled header, and to find that two
  # of them are the same.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

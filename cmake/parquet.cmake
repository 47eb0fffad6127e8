# TROUPE_PARQUET=AUTO|ON|OFF: whether parquet:FILES can be read, by a module of its
# own, beside the program and in it. It needs Apache Arrow's C++ libraries (18 or later), the
# system's or those that the pyarrow package of python3 brings;
# -DTROUPE_PYARROW=FOLDER names such a package elsewhere.

set(TROUPE_HAVE_PARQUET OFF)
set(TROUPE_PYARROW "" CACHE PATH "The folder of a pyarrow package")
if(NOT TROUPE_PARQUET STREQUAL "OFF")
  find_package(Parquet QUIET CONFIG)
  if(TARGET Parquet::parquet_shared)
    set(TROUPE_ARROW_LIBRARIES Parquet::parquet_shared)
    set(TROUPE_ARROW_FROM "the system's, ${Parquet_VERSION}")
  else()
    set(pyarrow "${TROUPE_PYARROW}")
    if(NOT pyarrow)
      find_program(TROUPE_PYTHON NAMES python3)
      mark_as_advanced(TROUPE_PYTHON)
      if(TROUPE_PYTHON)
        execute_process(
          COMMAND "${TROUPE_PYTHON}" -c "import importlib.util as u
found = u.find_spec('pyarrow')
print(found.submodule_search_locations[0] if found else '', end='')"
          OUTPUT_VARIABLE pyarrow ERROR_QUIET)
      endif()
    endif()
    file(GLOB libraries "${pyarrow}/libparquet.so.*" "${pyarrow}/libarrow.so.*")
    list(LENGTH libraries count)
    if(pyarrow AND count EQUAL 2)
      set(TROUPE_ARROW_INCLUDE "${pyarrow}/include")
      set(TROUPE_ARROW_LIBRARIES ${libraries})
      set(TROUPE_ARROW_FROM "${pyarrow}")
    endif()
  endif()
  if(TROUPE_ARROW_LIBRARIES)
    set(TROUPE_HAVE_PARQUET ON)
  elseif(TROUPE_PARQUET STREQUAL "ON")
    message(FATAL_ERROR
            "TROUPE_PARQUET=ON, but no Apache Arrow was found: python3 -m pip "
            "install pyarrow, or name its folder by -DTROUPE_PYARROW=FOLDER")
  endif()
endif()
if(TROUPE_HAVE_PARQUET)
  message(STATUS "Parquet: by Apache Arrow, ${TROUPE_ARROW_FROM}")
else()
  message(STATUS "Parquet: OFF")
endif()

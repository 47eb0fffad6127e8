# The simulators link some members of the rooms' libraries in versions of their own:
# seams.cpp and real/links.cpp, and machines with known bugs in them (plants.py).
# What is replaced is a member of its own (troupe_unity).
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(TROUPE_REAL_BUGS 3 4 6 7 13 14 19 20 49 # of real/planted/planted_test.cpp
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77
    80 81 82 83 84 85 86 92 94 95 97 98 99 100 101 102 103 104 105)
set(TROUPE_PLANTS "${CMAKE_CURRENT_LIST_DIR}/plants.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${TROUPE_PLANTS}")
execute_process(COMMAND "${Python3_EXECUTABLE}" "${TROUPE_PLANTS}" --files
                OUTPUT_VARIABLE TROUPE_PLANTED COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${Python3_EXECUTABLE}" "${TROUPE_PLANTS}" --files
                        ${TROUPE_REAL_BUGS}
                OUTPUT_VARIABLE TROUPE_REAL_PLANTED COMMAND_ERROR_IS_FATAL ANY)
set(TROUPE_REPLACED ${TROUPE_PLANTED})
list(FILTER TROUPE_REPLACED INCLUDE REGEX "^strategies/")
list(APPEND TROUPE_REPLACED ${TROUPE_REAL_PLANTED} kernels/engine/executor.cpp
     kernels/engine/parameter_gate.cpp actors/links/message_links.cpp)
# And tests/cuda_stand_in/ this one, in a build without CUDA.
list(APPEND TROUPE_REPLACED kernels/devices/cuda_absent.cpp)

# Included by CAF's own project() when cmake/setup builds it: all of CAF in few
# translation units, at half the cost. Two of its sources define a constant of
# the same name, so one of them stays alone.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
cmake_language(DEFER CALL set_source_files_properties
  "${CMAKE_CURRENT_SOURCE_DIR}/libcaf_core/src/binary_serializer.cpp"
  TARGET_DIRECTORY libcaf_core PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

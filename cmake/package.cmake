# Install and export: find_package(troupe) then offers troupe::actors, which
# holds troupe::Trainer, and the rooms below it.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/troupe")
install(TARGETS troupe_kernels troupe_strategies troupe_monitoring troupe_actors
        EXPORT troupe-targets
        FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe")
install(EXPORT troupe-targets NAMESPACE troupe:: DESTINATION "${package_dir}")
configure_package_config_file(
  cmake/troupe-config.cmake.in "${PROJECT_BINARY_DIR}/troupe-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/troupe-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/troupe-config.cmake"
              "${PROJECT_BINARY_DIR}/troupe-config-version.cmake"
        DESTINATION "${package_dir}")
install(FILES cmake/dependencies.cmake DESTINATION "${package_dir}"
        RENAME troupe-dependencies.cmake)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

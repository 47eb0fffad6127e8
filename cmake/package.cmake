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

# The program as a Debian package of the system that it was built on, with what its
# users look at: `cmake --build build/release --target package` leaves it in build/.
install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT program)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright
        COMPONENT program)
install(FILES docs/operations.md DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT program)
install(DIRECTORY cmake/systemd/ DESTINATION lib/systemd/system
        COMPONENT program)
install(DIRECTORY monitoring/grafana monitoring/prometheus
        DESTINATION "${CMAKE_INSTALL_DATADIR}/troupe/monitoring"
        COMPONENT program)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "Troupe maintainers <maintainers@troupe.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_SOURCE_DIR}/build")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME troupe)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "Workers, shards of a parameter server, the coordinator and members of an
all-reduce are actors that recover from each other's death; the trained weights
are the same bits whoever computed them, however many there were and whatever
died on the way.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "prometheus, openssl")
include(CPack)

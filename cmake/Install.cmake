# An exported package, so that another project says find_package(stiefel).
include(CMakePackageConfigHelpers)
install(TARGETS stiefel EXPORT stiefel-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stiefel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Not CMAKE_INSTALL_DOCDIR: in another project that is the other project's folder.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/stiefel)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stiefel)
install(EXPORT stiefel-targets NAMESPACE stiefel:: DESTINATION ${package_dir})
configure_package_config_file(cmake/stiefel-config.cmake.in ${PROJECT_BINARY_DIR}/stiefel-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stiefel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stiefel-config.cmake ${PROJECT_BINARY_DIR}/stiefel-config-version.cmake
  DESTINATION ${package_dir})

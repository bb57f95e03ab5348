# An exported package, so that another project says find_package(stiefel).
include(CMakePackageConfigHelpers)
install(TARGETS stiefel EXPORT stiefel-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stiefel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stiefel)
install(EXPORT stiefel-targets NAMESPACE stiefel:: DESTINATION ${package_dir})
configure_package_config_file(cmake/stiefel-config.cmake.in ${CMAKE_BINARY_DIR}/stiefel-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/stiefel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/stiefel-config.cmake ${CMAKE_BINARY_DIR}/stiefel-config-version.cmake
  DESTINATION ${package_dir})

# An exported package, so that another project says find_package(stiefel), or asks pkg-config. The components are those of the
# Debian packages (cmake/Packages.cmake); `cmake --install` without --component installs all of them.
include(CMakePackageConfigHelpers)
install(TARGETS stiefel EXPORT stiefel-targets
  LIBRARY COMPONENT stiefel_library NAMELINK_COMPONENT stiefel_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stiefel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT stiefel_development)
# Not CMAKE_INSTALL_DOCDIR: in another project that is the other project's folder. Debian has the licence on every system.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/stiefel
  COMPONENT stiefel_license)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stiefel)
install(EXPORT stiefel-targets NAMESPACE stiefel:: DESTINATION ${package_dir} COMPONENT stiefel_development)
configure_package_config_file(cmake/stiefel-config.cmake.in ${PROJECT_BINARY_DIR}/stiefel-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stiefel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stiefel-config.cmake ${PROJECT_BINARY_DIR}/stiefel-config-version.cmake
  DESTINATION ${package_dir} COMPONENT stiefel_development)

# pkg-config knows nothing of LibTorch: our file names its folders and libraries.
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT STIEFEL_PACKAGES)  # `cmake --install --prefix` may choose another folder later
  file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${up}")
endif()
list(REMOVE_DUPLICATES TORCH_INCLUDE_DIRS)
set(pc_cflags ${TORCH_CXX_FLAGS})
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  string(APPEND pc_cflags " -I${folder}")
endforeach()
cmake_path(GET TORCH_LIBRARY PARENT_PATH pc_torch_libdir)
configure_file(cmake/stiefel.pc.in ${PROJECT_BINARY_DIR}/stiefel.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/stiefel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT stiefel_development)

# Debian packages by CPack, as `./dev package` makes them: a package per component.
#   libstiefel0.2    the library; the name follows its soname, so that two minor versions can be installed side by side
#   libstiefel-dev   headers, CMake and pkg-config files
#   stiefel          the command, its manual page and completion
#   python3-stiefel  the Python package, on the library of libstiefel0.2
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "STIEFEL_PACKAGES is ON and CMAKE_INSTALL_PREFIX is ${CMAKE_INSTALL_PREFIX}; packages are installed in /usr:"
    " configure with `cmake --preset package`.")
endif()
if(NOT STIEFEL_BUILD_COMMAND)
  message(FATAL_ERROR "STIEFEL_PACKAGES is ON and STIEFEL_BUILD_COMMAND is OFF, but the command is one of the packages: set it ON.")
endif()
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(library_package libstiefel${abi})
set(version ${PROJECT_VERSION}-1)
set(folder ${PROJECT_BINARY_DIR}/debian)

# Whoever builds is the maintainer, by Debian's variables or else by the last commit.
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 "--format=%an <%ae>" OUTPUT_VARIABLE maintainer
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
string(STRIP "${maintainer}" maintainer)
if(NOT maintainer MATCHES "^[^<]+ <[^>]+@[^>]+>$")
  message(FATAL_ERROR "The maintainer of the packages is '${maintainer}'; set DEBFULLNAME and DEBEMAIL to a name and an address.")
endif()
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%aD OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET)
if(date STREQUAL "")
  execute_process(COMMAND date -R OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
string(REGEX MATCH "[0-9][0-9][0-9][0-9]" year "${date}")

# What every package has in /usr/share/doc. The command carries dygraphs in it (report/CMakeLists.txt), with its licence.
file(CONFIGURE OUTPUT ${folder}/changelog.Debian @ONLY CONTENT
"stiefel (@version@) unstable; urgency=medium

  * Packages of version @PROJECT_VERSION@. What it brings is in
    /usr/share/doc/@library_package@/changelog.gz.

 -- @maintainer@  @date@
")
execute_process(COMMAND gzip -9nkf ${folder}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
configure_file(CHANGELOG.md ${folder}/changelog COPYONLY)
execute_process(COMMAND gzip -9nkf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
set(embedded)
configure_file(cmake/debian/copyright.in ${folder}/copyright @ONLY)
if(dygraphs_license)
  file(READ ${dygraphs_license} dygraphs_text)
  set(embedded "The command embeds dygraphs, which draws the charts of its report. Its licence:\n\n${dygraphs_text}")
endif()
configure_file(cmake/debian/copyright.in ${folder}/command/copyright @ONLY)
function(install_documents component package copyright)
  install(FILES ${copyright} ${folder}/changelog.Debian.gz ${ARGN} DESTINATION share/doc/${package} COMPONENT ${component})
endfunction()
install_documents(stiefel_library ${library_package} ${folder}/copyright ${folder}/changelog.gz)
install_documents(stiefel_development libstiefel-dev ${folder}/copyright)
install_documents(stiefel_command stiefel ${folder}/command/copyright)
install_documents(stiefel_python python3-stiefel ${folder}/copyright)

# The command's manual page and completion, from what its --help says.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(manual_py ${PROJECT_SOURCE_DIR}/app/manual.py)
add_custom_command(OUTPUT ${folder}/stiefel.1.gz ${folder}/completion
  COMMAND ${Python3_EXECUTABLE} -B ${manual_py} $<TARGET_FILE:stiefel_command> --man ${folder}/stiefel.1
    --completion ${folder}/completion
  COMMAND gzip -9nf ${folder}/stiefel.1
  DEPENDS stiefel_command ${manual_py} VERBATIM COMMENT "Writing the manual page and the completion of the command")
add_custom_target(stiefel_manual ALL DEPENDS ${folder}/stiefel.1.gz ${folder}/completion)
install(FILES ${folder}/stiefel.1.gz DESTINATION share/man/man1 COMPONENT stiefel_command)
install(FILES ${folder}/completion DESTINATION share/bash-completion/completions RENAME stiefel COMPONENT stiefel_command)

# The Python package looks for libstiefel.so and libstiefel.json in its folder (python/stiefel/_library.py): here a link to
# the library of the other package, of the same version.
set(python_folder lib/python3/dist-packages)
install(DIRECTORY python/stiefel DESTINATION ${python_folder} COMPONENT stiefel_python
  FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
install(FILES $<TARGET_FILE_DIR:stiefel>/libstiefel.json DESTINATION ${python_folder}/stiefel COMPONENT stiefel_python)
file(MAKE_DIRECTORY ${folder}/link)
file(CREATE_LINK ../../../${CMAKE_LIBRARY_ARCHITECTURE}/libstiefel.so.${abi} ${folder}/link/libstiefel.so SYMBOLIC)
install(FILES ${folder}/link/libstiefel.so DESTINATION ${python_folder}/stiefel COMPONENT stiefel_python)
file(CONFIGURE OUTPUT ${folder}/stiefel.egg-info @ONLY CONTENT
  "Metadata-Version: 2.1\nName: stiefel\nVersion: @PROJECT_VERSION@\nSummary: @PROJECT_DESCRIPTION@\nLicense: Apache-2.0\n")
install(FILES ${folder}/stiefel.egg-info DESTINATION ${python_folder} RENAME stiefel-${PROJECT_VERSION}.egg-info
  COMPONENT stiefel_python)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL stiefel_library stiefel_development stiefel_command stiefel_python)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${maintainer}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE stiefel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The libraries of other packages by dpkg-shlibdeps; of ours none is installed yet, so those are named below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)

# A package's synopsis is its first line; CPack would put one summary before all of them.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(what
"Weight matrices stay on the Stiefel manifold, that is, orthonormal, while
they are trained, by the iterative Cayley transform: Cayley SGD, Cayley
ADAM and Cayley Muon for LibTorch and PyTorch.")

set(CPACK_DEBIAN_STIEFEL_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_STIEFEL_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_STIEFEL_LIBRARY_DESCRIPTION "training with orthonormal weights - shared library\n${what}\n.\nThis is the library.")
# Another BLAS gives the same results, more slowly: OpenBLAS's OpenMP variant shares LibTorch's threads.
set(CPACK_DEBIAN_STIEFEL_LIBRARY_PACKAGE_RECOMMENDS libopenblas0-openmp)
file(CONFIGURE OUTPUT ${folder}/shlibs CONTENT "libstiefel @abi@ @library_package@ (>= @PROJECT_VERSION@)\n" @ONLY)
set(CPACK_DEBIAN_STIEFEL_LIBRARY_PACKAGE_CONTROL_EXTRA ${folder}/shlibs ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)

set(CPACK_DEBIAN_STIEFEL_DEVELOPMENT_PACKAGE_NAME libstiefel-dev)
set(CPACK_DEBIAN_STIEFEL_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_STIEFEL_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${version}), libtorch-dev")
set(CPACK_DEBIAN_STIEFEL_DEVELOPMENT_DESCRIPTION
  "training with orthonormal weights - development files\n${what}\n.\nThese are the headers, the CMake and the pkg-config files.")

set(CPACK_DEBIAN_STIEFEL_COMMAND_PACKAGE_NAME stiefel)
set(CPACK_DEBIAN_STIEFEL_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_STIEFEL_COMMAND_PACKAGE_DEPENDS "${library_package} (= ${version})")
# What `stiefel data get` fetches with, and the data set that `stiefel train` takes unless told another.
set(CPACK_DEBIAN_STIEFEL_COMMAND_PACKAGE_SUGGESTS "dataset-fashion-mnist, npm, curl")
set(CPACK_DEBIAN_STIEFEL_COMMAND_DESCRIPTION
  "training with orthonormal weights - command\n${what}\n.\nThis is the command, which trains networks, reports on runs and
times the methods of the paper.")

set(CPACK_DEBIAN_STIEFEL_PYTHON_PACKAGE_NAME python3-stiefel)
set(CPACK_DEBIAN_STIEFEL_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_STIEFEL_PYTHON_PACKAGE_DEPENDS "${library_package} (= ${version}), python3-torch, python3:any")
set(CPACK_DEBIAN_STIEFEL_PYTHON_DESCRIPTION
  "training with orthonormal weights - Python package\n${what}\n.\nThis is the Python package.")
set(CPACK_DEBIAN_STIEFEL_PYTHON_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
include(CPack)

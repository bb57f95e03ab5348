cmake_minimum_required(VERSION 3.25)
# Writes stiefel_version.h anew at each build where the commit has changed.
#   cmake -DSOURCE=… -DOUTPUT=… -DVERSION=… -P Version.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
  "#pragma once\n#define STIEFEL_VERSION \"@VERSION@\"\n#define STIEFEL_COMMIT \"@commit@\"\n" @ONLY)

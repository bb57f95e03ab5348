# Configures, builds and runs tests/consumer against the installed package.
#   cmake -DSOURCE=… -DBINARY=… -DPREFIX=… -DTORCH_DIR=… -DGENERATOR=… -DCOMPILER=… -P consumer_test.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE ${BINARY})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${PREFIX} -DTorch_DIR=${TORCH_DIR})
run(${CMAKE_COMMAND} --build ${BINARY})
run(${BINARY}/consumer)

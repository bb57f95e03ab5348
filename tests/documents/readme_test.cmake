# The README's C++ example must be examples/quickstart.cpp, which the build compiles and a test runs.
#   cmake -DREADME=… -DEXAMPLE=… -P readme_test.cmake
file(READ ${README} readme)
file(READ ${EXAMPLE} example)
string(FIND "${readme}" "```cpp\n${example}```" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${README} does not show ${EXAMPLE} word for word; copy it into its cpp block")
endif()

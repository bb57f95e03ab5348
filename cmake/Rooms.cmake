# How our own code is compiled. LibTorch's headers take most of the time: torch/torch.h takes 20 s per file where it is
# parsed and 7 s where it is precompiled. So about eight files are compiled as one (a unity build), and whatever includes
# much of LibTorch shares one precompiled header.
#
# A unity build puts the unnamed namespaces of its files together: a name in one of them is used once per folder.
option(STIEFEL_UNITY "Compile several files as one" ${PROJECT_IS_TOP_LEVEL})
set(STIEFEL_UNITY_BATCH 8 CACHE STRING "How many files are compiled as one")

# What most of the programs' code includes. Compiled with the options of every room that uses it.
set(STIEFEL_ROOM_OPTIONS -O1)
function(stiefel_precompiled_header name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "// Owns the precompiled header.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE torch)
  target_compile_options(${name} PRIVATE ${STIEFEL_ROOM_OPTIONS})
  target_compile_definitions(${name} PRIVATE STIEFEL_HAS_CUDA=$<BOOL:${STIEFEL_HAS_CUDA}>)
  target_precompile_headers(${name} PRIVATE <torch/torch.h>)
  stiefel_warnings(${name})
endfunction()

# stiefel_compile(TARGET [TORCH] [HOT]): options of a target of ours. `#if STIEFEL_HAS_CUDA` tells its sources whether the
# programs use a GPU.
#   TORCH  its files include torch/torch.h, or as much of it: they use the precompiled header
#   HOT    time is spent in its own code; everything else only tells LibTorch what to do, and -O1 compiles it faster
function(stiefel_compile target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;HOT" "" "")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${STIEFEL_UNITY} UNITY_BUILD_BATCH_SIZE ${STIEFEL_UNITY_BATCH})
  target_compile_definitions(${target} PRIVATE STIEFEL_HAS_CUDA=$<BOOL:${STIEFEL_HAS_CUDA}>)
  if(NOT arg_HOT)
    target_compile_options(${target} PRIVATE ${STIEFEL_ROOM_OPTIONS})
  endif()
  if(arg_TORCH)
    target_precompile_headers(${target} REUSE_FROM stiefel_torch_header)
  endif()
  stiefel_warnings(${target})
endfunction()

# stiefel_room(NAME [TORCH] [HOT] SOURCES…): the static library of a folder. Files name others from the project's root.
function(stiefel_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;HOT" "" "")
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  set(options)
  foreach(option TORCH HOT)
    if(arg_${option})
      list(APPEND options ${option})
    endif()
  endforeach()
  stiefel_compile(${name} ${options})
endfunction()

# fmt: the compiled library, but its headers alone where LibTorch brings an fmt of its own, whose headers come first: two
# versions must not mix.
function(stiefel_find_fmt)
  find_package(fmt REQUIRED)
  add_library(stiefel_fmt INTERFACE)
  get_target_property(folders torch INTERFACE_INCLUDE_DIRECTORIES)
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS folders)
    if(EXISTS ${folder}/fmt/format.h AND NOT folder STREQUAL /usr/include)
      target_link_libraries(stiefel_fmt INTERFACE fmt::fmt-header-only)
      return()
    endif()
  endforeach()
  target_link_libraries(stiefel_fmt INTERFACE fmt::fmt)
endfunction()

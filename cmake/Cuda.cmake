# What CUDA there is. The programs use a GPU where LibTorch was built for CUDA and nvcc is found. The kernels include no
# header of LibTorch's, so nvcc alone can compile them, as a check that they compile.
#
#   STIEFEL_HAS_NVCC     the kernels are compiled
#   STIEFEL_HAS_CUDA     so is the glue between them and LibTorch, and the programs use a GPU

# Code for Hopper, and PTX from which the driver makes code for any other card since Turing.
set(STIEFEL_CUDA_ARCHITECTURES "75-virtual;90-real" CACHE STRING
  "The GPU architectures of the kernels that are not for Hopper alone")
option(STIEFEL_CUDA "Use CUDA where LibTorch was built for it and nvcc is found" ON)
option(STIEFEL_CUDA_COMPILE_CHECK "Compile the CUDA kernels for a LibTorch without CUDA too, where nvcc is found" OFF)

set(STIEFEL_HAS_NVCC OFF)
set(STIEFEL_HAS_CUDA OFF)
if(STIEFEL_CUDA AND (TARGET torch_cuda OR STIEFEL_CUDA_COMPILE_CHECK))
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(STIEFEL_HAS_NVCC ON)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${STIEFEL_CUDA_ARCHITECTURES})
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    # LibTorch adds its own choice of architectures for all CUDA sources; ours have theirs.
    string(REGEX REPLACE "-gencode[= ]?[^ ]+" "" CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS}")
    find_package(CUDAToolkit REQUIRED)
    if(TARGET torch_cuda)
      set(STIEFEL_HAS_CUDA ON)
    endif()
  endif()
endif()
message(STATUS "CUDA kernels: ${STIEFEL_HAS_NVCC}; LibTorch with CUDA: ${STIEFEL_HAS_CUDA}")

# A library of plain CUDA sources, without a header of LibTorch's. HOPPER: of sources that use what only those cards have;
# AMPERE: of sources that need compute capability 8.0, so they are not compiled for less. The glue checks that the card is
# one before it launches their kernels.
function(stiefel_cuda_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "HOPPER;AMPERE" "" "")
  set(architectures ${STIEFEL_CUDA_ARCHITECTURES})
  if(library_HOPPER)
    set(architectures 90a)
  elseif(library_AMPERE)
    list(TRANSFORM architectures REPLACE "^7[0-9]" "80")
    list(REMOVE_DUPLICATES architectures)
  endif()
  add_library(${name} STATIC ${library_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_ARCHITECTURES "${architectures}")
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo>)
  target_link_libraries(${name} PUBLIC CUDA::cudart)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

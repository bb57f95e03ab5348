#pragma once

#include <cuda_runtime_api.h>

#include "generation.h"
#include "mixed_context.cuh"

/// Launches of a step, one after the other on one stream, with next to no pause between them: on Hopper the
/// thread blocks of a launch start while the last ones of the launch before are still at work (programmatic
/// dependent launch). A kernel launched so calls wait_for_earlier_launches() before it touches anything that
/// a launch of this step or earlier work on the stream writes; the tables of the plan are not among that.
namespace stiefel::cuda::STIEFEL_KERNELS {

/// In every thread. Afterwards all earlier launches have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_earlier_launches() {
#if STIEFEL_FOR_HOPPER
  asm volatile("griddepcontrol.wait;" ::: "memory");
  // Only now, so that no more than one later launch holds shared memory that this one's blocks could use.
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#ifdef __CUDACC__

/// An error is left for cudaGetLastError, as by <<<>>>.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Context, Parameters...), int blocks, int threads, size_t shared_bytes,
            cudaStream_t stream, const Context& c, const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = STIEFEL_FOR_HOPPER && c.chained ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, c, arguments...);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS

#pragma once

#include <cuda_runtime_api.h>

namespace stiefel::models::cuda::relu {

/// Launches a kernel; where the compiler is no CUDA compiler, a test runs it on the CPU (tests/cuda_on_cpu).
template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, int threads, cudaStream_t stream, const Arguments&... arguments) {
#ifdef __CUDACC__
  kernel<<<grid, threads, 0, stream>>>(arguments...);
#else
  (void)stream;
  cuda_on_cpu::run(grid, threads, [&] { kernel(arguments...); });
#endif
}

}  // namespace stiefel::models::cuda::relu

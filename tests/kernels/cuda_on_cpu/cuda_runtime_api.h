#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

// What a kernel without tensor cores needs of CUDA, on the CPU: a block's threads take turns, each up to the
// next barrier, and the blocks follow one another. For tests of the kernels' own code where there is no GPU.

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __grid_constant__
#define __shared__ static  // the blocks come one at a time

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
};
struct cudaFuncAttributes {};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

namespace cuda_on_cpu {

/// What cudaDeviceGetAttribute returns, beside compute capability 8.6.
extern int processors;
extern int shared_bytes;  // 99 KB unless a test says otherwise

/// Whether the last thread of a block comes first. Kernels without a race between two barriers write the same
/// either way.
extern bool last_thread_first;

void run(dim3 grid, int threads, const std::function<void()>& kernel);
/// A barrier of the block, and one of the threads of a warp, all of which call the same function.
void wait_for_block();
void wait_for_warp();

/// A block's dynamic shared memory.
constexpr size_t kDynamicBytes = 160 << 10;
float* dynamic_memory();

}  // namespace cuda_on_cpu

extern dim3 threadIdx, blockIdx, gridDim, blockDim;

inline void __syncthreads() { cuda_on_cpu::wait_for_block(); }
inline void __syncwarp() {}
inline void __threadfence() {}

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const int values[] = {cuda_on_cpu::processors, cuda_on_cpu::shared_bytes, 8, 6};
  *value = values[attribute];
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int bytes) {
  return bytes <= cuda_on_cpu::shared_bytes ? cudaSuccess : cudaErrorInvalidValue;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel*) {
  return cudaSuccess;
}

template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}

inline unsigned atomicInc(unsigned* counter, unsigned last) {
  const unsigned before = *counter;
  *counter = before >= last ? 0 : before + 1;
  return before;
}

inline unsigned long long atomicAdd(unsigned long long* counter, unsigned long long value) {
  const auto before = *counter;
  *counter += value;
  return before;
}

/// The value of the thread whose lane differs in the bits of `mask`. All threads of a warp must call it
/// together.
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  static T values[1024];
  values[threadIdx.x] = value;
  cuda_on_cpu::wait_for_warp();
  const T other = values[threadIdx.x ^ static_cast<unsigned>(mask)];
  cuda_on_cpu::wait_for_warp();
  return other;
}

using std::isfinite;
using std::max;
using std::min;

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#pragma once

#include <cuda_bf16.h>

/// Eight neighbouring channels of a pixel, which a thread takes at once.
namespace stiefel::models::cuda::relu {

constexpr int kEight = 8;

/// As they lie in memory.
template <class T>
struct Packed;
template <>
struct Packed<__nv_bfloat16> {
  uint4 all;
};
template <>
struct Packed<float> {
  float4 low, high;
};

static_assert(sizeof(Packed<__nv_bfloat16>) == 16 && alignof(Packed<__nv_bfloat16>) == 16,
              "one load of 16 bytes");
static_assert(sizeof(Packed<float>) == 32 && alignof(Packed<float>) == 16, "two loads of 16 bytes");

struct Eight {
  float of[kEight];
};

template <class T>
__device__ Packed<T> load(const T* from) {
  return *reinterpret_cast<const Packed<T>*>(from);
}

__device__ inline Eight unpack(const Packed<float>& packed) {
  return {{packed.low.x, packed.low.y, packed.low.z, packed.low.w, packed.high.x, packed.high.y,
           packed.high.z, packed.high.w}};
}

__device__ inline Eight unpack(const Packed<__nv_bfloat16>& packed) {
  const unsigned pairs[] = {packed.all.x, packed.all.y, packed.all.z, packed.all.w};
  Eight result;
#pragma unroll
  for (int i = 0; i < kEight; i += 2) {
    // A bfloat16 is the upper half of a float.
    result.of[i] = __uint_as_float(pairs[i / 2] << 16);
    result.of[i + 1] = __uint_as_float(pairs[i / 2] & 0xffff0000u);
  }
  return result;
}

__device__ inline void store(float* to, const Eight& eight) {
  const float* of = eight.of;
  *reinterpret_cast<Packed<float>*>(to) = {make_float4(of[0], of[1], of[2], of[3]),
                                           make_float4(of[4], of[5], of[6], of[7])};
}

__device__ inline void store(__nv_bfloat16* to, const Eight& eight) {
  unsigned pairs[kEight / 2];
#pragma unroll
  for (int i = 0; i < kEight; i += 2) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(eight.of[i], eight.of[i + 1]);
    pairs[i / 2] = *reinterpret_cast<const unsigned*>(&pair);
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/// What a T keeps of a number.
__device__ inline float rounded(float value, const float*) { return value; }
__device__ inline float rounded(float value, const __nv_bfloat16*) {
  return __bfloat162float(__float2bfloat16_rn(value));
}

}  // namespace stiefel::models::cuda::relu

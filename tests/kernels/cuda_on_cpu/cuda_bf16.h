#pragma once

#include "cuda_runtime_api.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

/// To the nearest, of two equally near ones to the even.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  if (value != value) return {0x7fff};
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(uint32_t{value.bits} << 16); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#pragma once

#include <algorithm>

#include "cuda_runtime_api.h"

struct __half {
  uint16_t bits;
};

inline float __half2float(__half value) {
  const int exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
  const float sign = value.bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp(1.0f * fraction, -24));
}

/// To the nearest, of two equally near ones to the even.
inline __half __float2half_rn(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return {0x7fff};
  const float size = std::fabs(value);
  if (size == 0) return {sign};
  int exponent = 0;
  std::frexp(size, &exponent);                                  // size < 2^exponent
  const int unit = std::max(exponent - 11, -24);                // of the last bit
  const float count = std::nearbyint(std::ldexp(size, -unit));  // of these units, exact
  if (!(std::ldexp(count, unit) <= 65504.0f)) return {static_cast<uint16_t>(sign | 0x7c00)};
  const auto whole = static_cast<int>(count);
  // A count of 1024 to 2047 is a normal number; one more is the next exponent's first, which adding makes it.
  const int bits = unit == -24 ? whole : ((unit + 24) << 10) + whole;
  return {static_cast<uint16_t>(sign | bits)};
}

struct alignas(4) __half2 {
  __half x, y;
};
inline float2 __half22float2(__half2 value) { return {__half2float(value.x), __half2float(value.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }

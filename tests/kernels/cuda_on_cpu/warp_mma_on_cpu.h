#pragma once

#include <cuda_fp16.h>

#include <vector>

// What src/cuda/warp_mma_ptx.cuh offers, on the CPU. All threads of a block call each function together. A
// product of 16 terms is exact, and the sum with C is cut off to a float, as tensor cores do.
namespace stiefel::cuda::warp_mma {

/// Every thread's value, for all to read until each has called this function twice more.
template <class T>
const T* exchange(const T& value) {
  static T values[2][1024];
  static unsigned calls[1024];
  T* now = values[calls[threadIdx.x]++ % 2];
  now[threadIdx.x] = value;
  cuda_on_cpu::wait_for_block();
  return now;
}

inline float as_float(uint16_t bits) {
  static const auto all = [] {
    std::vector<float> values(1 << 16);
    for (unsigned i = 0; i < values.size(); ++i) values[i] = __half2float({static_cast<uint16_t>(i)});
    return values;
  }();
  return all[bits];
}

inline unsigned first_lane() { return threadIdx.x / 32 * 32; }

template <int kMatrices, bool kTransposed>
void load(uint32_t (&to)[kMatrices], const __half* row) {
  const auto* rows = exchange(row) + first_lane();
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (unsigned i = 0; i < kMatrices; ++i) {
    const auto at = [&](unsigned r, unsigned c) {
      return uint32_t{kTransposed ? rows[8 * i + c][r].bits : rows[8 * i + r][c].bits};
    };
    to[i] = at(g, 2 * t) | at(g, 2 * t + 1) << 16;
  }
}

inline void load_four(uint32_t (&to)[4], const __half* row) { load<4, false>(to, row); }
inline void load_four_transposed(uint32_t (&to)[4], const __half* row) { load<4, true>(to, row); }
inline void load_two(uint32_t (&to)[2], const __half* row) { load<2, false>(to, row); }

inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Fragments {
    uint32_t a[4], b[2];
  };
  const auto* all = exchange(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}}) + first_lane();
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned column = 2 * t + e % 2, down = e / 2;
    double sum = c[e];
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned half = k / 8, pair = k % 8 / 2, shift = k % 2 * 16;
      const uint32_t left = all[g * 4 + pair].a[2 * half + down], right = all[column * 4 + pair].b[half];
      sum += static_cast<double>(as_float(static_cast<uint16_t>(left >> shift))) *
             static_cast<double>(as_float(static_cast<uint16_t>(right >> shift)));
    }
    float result = static_cast<float>(sum);
    if (std::fabs(static_cast<double>(result)) > std::fabs(sum)) result = std::nextafterf(result, 0.0f);
    c[e] = result;
  }
}

}  // namespace stiefel::cuda::warp_mma

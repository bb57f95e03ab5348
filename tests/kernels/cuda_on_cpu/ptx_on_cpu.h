#pragma once

#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

// The PTX instructions of src/cuda/ptx.cuh and ptx_ampere.cuh that kernels for every card since Ampere use,
// on the CPU. Those of a warp must be called by all of its threads together. An address of shared
// memory counts bytes of the block's dynamic shared memory.
namespace stiefel::ptx {

inline char* dynamic_shared() { return reinterpret_cast<char*>(cuda_on_cpu::dynamic_memory()); }
inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - dynamic_shared());
}
inline void prefetch_l2(const void*) {}

inline void copy_async(uint32_t to, const void* from) { std::memcpy(dynamic_shared() + to, from, 16); }
inline void commit_copies() {}
template <int kLeft>
void wait_copies() {}

namespace on_cpu {

/// What the threads of a warp show each other. Two in turns: a thread is at most one call ahead of others.
template <class Shown>
class Exchange {
 public:
  /// What the threads of this warp have shown, lane by lane.
  const Shown* show(const Shown& mine) {
    auto& all = shown_[turn_[threadIdx.x] ^= 1];
    all[threadIdx.x] = mine;
    cuda_on_cpu::wait_for_warp();
    return all + threadIdx.x / 32 * 32;
  }

 private:
  static constexpr int kThreads = 1024;
  Shown shown_[2][kThreads];
  unsigned char turn_[kThreads] = {};
};

inline float value_of(uint32_t halves, int which) {
  static const auto all = [] {
    std::vector<float> values(1 << 16);
    for (unsigned bits = 0; bits < values.size(); ++bits) {
      values[bits] = __half2float({static_cast<uint16_t>(bits)});
    }
    return values;
  }();
  return all[which == 0 ? halves & 0xffff : halves >> 16];
}

inline uint16_t half_at(uint32_t address) {
  uint16_t bits;
  std::memcpy(&bits, dynamic_shared() + address, 2);
  return bits;
}

template <unsigned kMatrices>
void load(uint32_t (&r)[kMatrices], uint32_t address, bool transposed) {
  static Exchange<uint32_t> exchange;
  const uint32_t* rows = exchange.show(address);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, c = lane % 4 * 2;
  for (unsigned i = 0; i < kMatrices; ++i) {
    const uint32_t first = transposed ? half_at(rows[8 * i + c] + 2 * g) : half_at(rows[8 * i + g] + 2 * c);
    const uint32_t second =
        transposed ? half_at(rows[8 * i + c + 1] + 2 * g) : half_at(rows[8 * i + g] + 2 * (c + 1));
    r[i] = first | second << 16;
  }
}

}  // namespace on_cpu

inline void load_matrices(uint32_t (&r)[4], uint32_t address) { on_cpu::load(r, address, false); }
inline void load_two_matrices(uint32_t (&r)[2], uint32_t address) { on_cpu::load(r, address, false); }
inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) { on_cpu::load(r, address, true); }

inline void multiply_add(float& d0, float& d1, float& d2, float& d3, const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1) {
  struct Operands {
    uint32_t a[4], b[2];
  };
  static on_cpu::Exchange<Operands> exchange;
  const Operands* all = exchange.show({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const unsigned lane = threadIdx.x % 32, g = lane / 4, c = lane % 4 * 2;
  float* const d[4] = {&d0, &d1, &d2, &d3};
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = g + i / 2 * 8, column = c + i % 2;
    double sum = static_cast<double>(*d[i]);
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned half = k / 8, quarter = k % 8 / 2;
      const auto which = static_cast<int>(k % 2);
      sum += static_cast<double>(on_cpu::value_of(all[row % 8 * 4 + quarter].a[row / 8 + 2 * half], which)) *
             static_cast<double>(on_cpu::value_of(all[column * 4 + quarter].b[half], which));
    }
    // A product of 16 terms is exact, and the sum is cut off to a float, as tensor cores do.
    float result = static_cast<float>(sum);
    if (std::fabs(static_cast<double>(result)) > std::fabs(sum)) result = std::nextafterf(result, 0.0f);
    *d[i] = result;
  }
}
inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_add(d[0], d[1], d[2], d[3], a, b0, b1);
}

}  // namespace stiefel::ptx

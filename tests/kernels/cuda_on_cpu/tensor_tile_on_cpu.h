#pragma once

#include <cuda_fp16.h>

#include <vector>

#include "src/cuda/half_matrix.cuh"

// The products of a block on the CPU, without tensor cores: what src/cuda/tensor_tile.cuh offers to kernels
// whose tile is one team's work and has no producer. Sums are floats, each thread's own.
namespace stiefel::cuda {

constexpr int kTeamThreads = 128;

enum class Second { kTransposed, kPlain };

template <int kM, int kN, int kTeamsM, int kTeamsN, Second kSecond, int kStages>
struct TensorTile {
  static_assert(kTeamsM == 1 && kTeamsN == 1 && kSecond == Second::kTransposed, "all that is here");
  static constexpr int kThreads = kTeamThreads;
  static constexpr int kBarrierBytes = 1024;
  static constexpr int kSharedBytes = 1024 + kBarrierBytes + kStages * (kM + kN) / kBlockSide * kBlockBytes;
  static constexpr int kGroups = kM / 64;
  static constexpr int kPairs = kGroups * kN / 4;

  char* memory() const { return reinterpret_cast<char*>(cuda_on_cpu::dynamic_memory()); }

  void clear() {
    for (auto& group : sum)
      for (float& value : group) value = 0;
  }

  template <class Visit>
  void for_each_pair(Visit visit) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    const int column = lane % 4 * 2;
    for (int g = 0; g < kGroups; ++g)
      for (int j = 0; j < kN / 8; ++j) {
        const int index = (g * (kN / 8) + j) * 2;
        visit(index, g * 64 + row, j * 8 + column, sum[g][j * 4], sum[g][j * 4 + 1]);
        visit(index + 1, g * 64 + row + 8, j * 8 + column, sum[g][j * 4 + 2], sum[g][j * 4 + 3]);
      }
  }

  struct Rows {
    Operand a;
    int first;
  };
  struct Job {
    Rows rows[1];
    Operand b;
    int column;
    int from, to;
  };

  void add_product(const Job& job) {
    cuda_on_cpu::wait_for_block();
    const auto& [a, first] = job.rows[0];
    float next[kGroups][kN / 2];
    for_each_pair([&](int index, int row, int column, float before, float before_too) {
      float* to = &next[0][0] + index * 2;
      to[0] = before + inner(a, first * kBlockSide + row, job.b, job.column * kBlockSide + column, job);
      to[1] =
          before_too + inner(a, first * kBlockSide + row, job.b, job.column * kBlockSide + column + 1, job);
    });
    for (int i = 0; i < kPairs; ++i) {
      // Pair i is entries 2i and 2i + 1 of `sum`, in the order in which for_each_pair visits them.
      (&sum[0][0])[2 * i] = (&next[0][0])[2 * i];
      (&sum[0][0])[2 * i + 1] = (&next[0][0])[2 * i + 1];
    }
    cuda_on_cpu::wait_for_block();
  }

  float sum[kGroups][kN / 2];

 private:
  static float inner(const Operand& a, int row, const Operand& b, int column, const Job& job) {
    float result = 0;
    for (int k = job.from * kBlockSide; k < job.to * kBlockSide; ++k) {
      result += value_of(a.data[swizzled_index(row, k, a.across)]) *
                value_of(b.data[swizzled_index(column, k, b.across)]);
    }
    return result;
  }

  static float value_of(__half half) {
    static const auto all = [] {
      std::vector<float> values(1 << 16);
      for (unsigned bits = 0; bits < values.size(); ++bits) {
        values[bits] = __half2float({static_cast<uint16_t>(bits)});
      }
      return values;
    }();
    return all[half.bits];
  }
};

}  // namespace stiefel::cuda

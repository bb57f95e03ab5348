#include "chained_launch.cuh"
#include "mixed_context.cuh"
#include "mixed_kernels.h"

// M ← decay·M + gain·G, not yet written, and the pieces H₁, H₂ and M₁ of a row, with its sums of squares.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

constexpr int kSplitThreads = 256;
constexpr size_t kMostStaged = 96 << 10;

/// One row. Of the rows beyond the matrix, up to whole blocks, H₁ and M₁ are zero. Those of H₂ are never
/// written: H₂ is only the first operand of H₂H₁ᵀ, where a row makes its own row of the product, and
/// normal_part.cu reads rows below p alone.
__global__ void __launch_bounds__(kSplitThreads)
    split_row(Context c, const RowIndex* indices, Recipe recipe, int staged) {
#ifdef __CUDACC__
  extern __shared__ float row_of_m[];
#else  // a test runs the kernel on the CPU (tests/cuda_on_cpu)
  float* row_of_m = cuda_on_cpu::dynamic_memory();
#endif
  const RowIndex index = indices[blockIdx.x];
  wait_for_earlier_launches();
  const Layout& l = c.layouts[index.matrix];
  const Matrix& a = c.matrices[index.matrix];
  const int i = index.row, across = l.ld / kBlockSide;
  __half* h1 = c.halves(l.pieces[kH1]);
  __half* h2 = c.halves(l.pieces[kH2]);
  __half* m1 = c.halves(l.pieces[kM1]);
  if (i >= l.p) {
    for (int j = threadIdx.x * 4; j < l.ld; j += kSplitThreads * 4) {
      const int64_t at = swizzled_index(i, j, across);
      *reinterpret_cast<uint2*>(h1 + at) = *reinterpret_cast<uint2*>(m1 + at) = make_uint2(0, 0);
    }
    return;
  }
  const float* x = a.x + static_cast<int64_t>(i) * a.x_row;
  const float* m = a.m + static_cast<int64_t>(i) * a.m_row;
  const float* g = a.g + static_cast<int64_t>(i) * a.g_row;
  const float decay = static_cast<float>(recipe.decay), gain = static_cast<float>(recipe.gain);
  float xx = 0, gg = 0, mm = 0;
  const auto take = [&](int j, float xj, float mj, float gj, __half& first, __half& second) {
    const float scaled = xj * kXScale;
    first = __float2half_rn(scaled);
    second = __float2half_rn((scaled - __half2float(first)) * kRestScale);
    const float next = decay * mj + gain * gj;
    xx += xj * xj;
    gg += gj * gj;
    mm += next * next;
    if (staged) row_of_m[j] = next;
  };
  const auto address = [](const float* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  const bool wide = a.x_column == 1 && a.m_column == 1 && a.g_column == 1 && l.n % 4 == 0 &&
                    ((address(x) | address(m) | address(g)) & 15) == 0;
  if (wide) {
    for (int j = threadIdx.x * 4; j < l.n; j += kSplitThreads * 4) {
      const float4 x4 = *reinterpret_cast<const float4*>(x + j);
      const float4 m4 = *reinterpret_cast<const float4*>(m + j);
      const float4 g4 = *reinterpret_cast<const float4*>(g + j);
      __half first[4], second[4];
      take(j, x4.x, m4.x, g4.x, first[0], second[0]);
      take(j + 1, x4.y, m4.y, g4.y, first[1], second[1]);
      take(j + 2, x4.z, m4.z, g4.z, first[2], second[2]);
      take(j + 3, x4.w, m4.w, g4.w, first[3], second[3]);
      const int64_t at = swizzled_index(i, j, across);
      *reinterpret_cast<uint2*>(h1 + at) = *reinterpret_cast<uint2*>(first);
      *reinterpret_cast<uint2*>(h2 + at) = *reinterpret_cast<uint2*>(second);
    }
  } else {
    for (int j = threadIdx.x; j < l.n; j += kSplitThreads) {
      const int64_t at = swizzled_index(i, j, across);
      take(j, x[static_cast<int64_t>(j) * a.x_column], m[static_cast<int64_t>(j) * a.m_column],
           g[static_cast<int64_t>(j) * a.g_column], h1[at], h2[at]);
    }
  }
  sum_over_block(xx, gg, mm);
  // 16 on average; at most 16√n.
  const float scale = power_below(16 * sqrtf(static_cast<float>(l.n)) / sqrtf(mm));
  const auto next_of = [&](int j) {
    return staged ? row_of_m[j]
                  : decay * m[static_cast<int64_t>(j) * a.m_column] +
                        gain * g[static_cast<int64_t>(j) * a.g_column];
  };
  for (int j = threadIdx.x * 4; j < l.ld; j += kSplitThreads * 4) {
    const int64_t at = swizzled_index(i, j, across);
    __half rounded[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      rounded[u] = __float2half_rn(j + u < l.n ? next_of(j + u) * scale : 0);
      if (j + u >= l.n) h1[at + u] = h2[at + u] = __half();
    }
    *reinterpret_cast<uint2*>(m1 + at) = *reinterpret_cast<uint2*>(rounded);
  }
  if (threadIdx.x == 0) c.rows[l.first_row + i] = {xx, gg, mm, 1 / scale};
}

}  // namespace

#ifdef __CUDACC__

cudaError_t allow_split_rows() { return allow_shared(kMostStaged, split_row); }

void split_rows(const Context& c, DeviceList<RowIndex> rows, const Recipe& recipe, size_t widest,
                cudaStream_t stream) {
  const bool staged = widest <= kMostStaged;
  launch(split_row, rows.count, kSplitThreads, staged ? widest : 0, stream, c, rows.entries, recipe, staged);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS

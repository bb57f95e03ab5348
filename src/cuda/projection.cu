#include "chained_launch.cuh"
#include "matrix_state.cuh"
#include "mixed_kernels.h"
#include "thin_tiles.cuh"

// M ← decay·M + gain·G − Σ H₁, written, and M₁ of it: the direction from here on.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

__global__ void __launch_bounds__(ThinTile::kThreadsWithProducer, 1)
    remove_normal_part(Context c, const TileIndex* indices, Recipe recipe) {
  ThinTile tile;
  wait_for_earlier_launches();
  const ThinWork work(c, indices[blockIdx.x]);
  const Layout& l = work.l;
  const Matrix& a = work.a;
  const int left = work.left(), across = work.across();
  const Decision& state = c.states[work.index.matrix].decision;
  const auto window_of_m = [&](int top) { return Window(a.m, a.m_row, a.m_column, top, left, l); };
  const auto window_of_g = [&](int top) {  // read only
    return Window(const_cast<float*>(a.g), a.g_row, a.g_column, top, left, l);
  };
  const ThinTile::Job job = work.times_h1(c, l.sigma);
  if (ThinTile::is_producer()) {
    if (threadIdx.x % 32 == 0) tile.produce(job);
    return;
  }
  for (int first = 0; first < kTileSide; first += kStagedRows) {
    window_of_m(work.top() + first).prefetch();
    window_of_g(work.top() + first).prefetch();
  }
  tile.clear();
  tile.consume(job, l.side / kBlockSide);
  const float decay = static_cast<float>(recipe.decay), gain = static_cast<float>(recipe.gain);
  const float scale = state.m_scale, back = 1 / (scale * kXScale);
  const bool frozen = !(state.sound && is_near(c, l, recipe));
  __half* m1 = c.halves(l.pieces[kM1]);
  float length = 0;
  const auto next_of = [&](float m, float g, float normal) { return decay * m + gain * g - normal * back; };
  for (int first = 0; first < kTileSide; first += kStagedRows) {
    const int top = work.top() + first;
    const Window of_m = window_of_m(top), of_g = window_of_g(top);
    float* staged = stage(tile, first);
    const auto round_quad = [&](int i, int j, const float4& next) {
      __half halves[4] = {__float2half_rn(next.x * scale), __float2half_rn(next.y * scale),
                          __float2half_rn(next.z * scale), __float2half_rn(next.w * scale)};
#pragma unroll
      for (const __half half : halves) length += __half2float(half) * __half2float(half);
      *reinterpret_cast<uint2*>(m1 + swizzled_index(top + i, left + j, across)) =
          *reinterpret_cast<uint2*>(halves);
    };
    if (of_m.by_quads && of_g.by_quads) {
      for (int base = ThinTile::thread() / 32; base < of_m.rows; base += 4 * kQuadsAtOnce) {
        float4 m[kQuadsAtOnce], g[kQuadsAtOnce];
        for_each_quad(of_m, base, [&](int u, int i, int j) {
          m[u] = quad(of_m.at(i, j));
          g[u] = quad(of_g.at(i, j));
        });
        for_each_quad(of_m, base, [&](int u, int i, int j) {
          const float4 normal = quad(staged + i * kStagedLd + j);
          const float4 next =
              make_float4(next_of(m[u].x, g[u].x, normal.x), next_of(m[u].y, g[u].y, normal.y),
                          next_of(m[u].z, g[u].z, normal.z), next_of(m[u].w, g[u].w, normal.w));
          if (!frozen) quad(of_m.at(i, j)) = next;
          round_quad(i, j, next);
        });
      }
    } else {
      for (int single = 0; single < singles_of(of_m); single += kTeamThreads * kSinglesAtOnce) {
        float m[kSinglesAtOnce], g[kSinglesAtOnce];
        for_each_single(of_m, single, [&](int u, int i, int j) {
          m[u] = *of_m.at(i, j);
          g[u] = *of_g.at(i, j);
        });
        for_each_single(of_m, single, [&](int u, int i, int j) {
          float& at = staged[i * kStagedLd + j];
          at = next_of(m[u], g[u], at);
          if (!frozen) *of_m.at(i, j) = at;
        });
      }
      ThinTile::sync();
      for (int at = ThinTile::thread() * 4; at < of_m.rows * kTileSide; at += kTeamThreads * 4) {
        const int i = at / kTileSide, j = at % kTileSide;
        if (left + j >= l.ld) continue;
        float4 next = quad(staged + i * kStagedLd + j);
        if (j >= of_m.columns) next.x = 0;  // what lies beyond the matrix stays zero
        if (j + 1 >= of_m.columns) next.y = 0;
        if (j + 2 >= of_m.columns) next.z = 0;
        if (j + 3 >= of_m.columns) next.w = 0;
        round_quad(i, j, next);
      }
    }
  }
  float zero = 0, nothing = 0;
  sum_over_block<ThinTile>(length, zero, nothing);
  if (threadIdx.x == 0) c.thin[blockIdx.x] = length;
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_projection() { return allow_shared(ThinTile::kSharedBytes, remove_normal_part); }

void project(const Context& c, DeviceList<TileIndex> tiles, const Recipe& recipe, cudaStream_t stream) {
  launch(remove_normal_part, tiles.count, ThinTile::kThreadsWithProducer, ThinTile::kSharedBytes, stream, c,
         tiles.entries, recipe);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS

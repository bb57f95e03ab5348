#include "chained_launch.cuh"
#include "mixed_kernels.h"
#include "thin_tiles.cuh"

// x ← x + τM₁ + F H₁ + (C − τI) M₁; for Cayley Muon x ← x + F H₁ + C M₁.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

__global__ void __launch_bounds__(ThinTile::kThreadsWithProducer, 1)
    move_points(Context c, const TileIndex* indices) {
  ThinTile tile;
  wait_for_earlier_launches();
  const ThinWork work(c, indices[blockIdx.x]);
  const State state = c.states[work.index.matrix];
  if (state.decision.frozen) return;
  const Layout& l = work.l;
  const Matrix& a = work.a;
  const int left = work.left(), across = work.across();
  const auto window_of_x = [&](int top) { return Window(a.x, a.x_row, a.x_column, top, left, l); };
  const ThinTile::Job job = work.times_h1_and_m1(c, l.f, l.c);
  if (ThinTile::is_producer()) {
    if (threadIdx.x % 32 == 0) tile.produce(job);
    return;
  }
  for (int first = 0; first < kTileSide; first += kStagedRows) window_of_x(work.top() + first).prefetch();
  tile.clear();
  tile.consume(job, 2 * l.side / kBlockSide);
  const float back = 1 / (state.size.f_scale * kXScale), along = state.size.apart / state.decision.m_scale;
  const __half* m1 = c.halves(l.pieces[kM1]);
  const auto by = [&](float sum, float m) { return sum * back + along * m; };
  for (int first = 0; first < kTileSide; first += kStagedRows) {
    const int top = work.top() + first;
    const Window of_x = window_of_x(top);
    float* staged = stage(tile, first);
    const auto quad_by = [&](int i, int j, const float4& m) {
      const float4 sum = quad(staged + i * kStagedLd + j);
      return make_float4(by(sum.x, m.x), by(sum.y, m.y), by(sum.z, m.z), by(sum.w, m.w));
    };
    if (of_x.by_quads) {
      for (int base = ThinTile::thread() / 32; base < of_x.rows; base += 4 * kQuadsAtOnce) {
        float4 x[kQuadsAtOnce], m[kQuadsAtOnce];
        for_each_quad(of_x, base, [&](int u, int i, int j) {
          x[u] = quad(of_x.at(i, j));
          m[u] = quad(m1 + swizzled_index(top + i, left + j, across));
        });
        for_each_quad(of_x, base, [&](int u, int i, int j) {
          const float4 d = quad_by(i, j, m[u]);
          quad(of_x.at(i, j)) = make_float4(x[u].x + d.x, x[u].y + d.y, x[u].z + d.z, x[u].w + d.w);
        });
      }
    } else {
      for (int at = ThinTile::thread() * 4; at < of_x.rows * kTileSide; at += kTeamThreads * 4) {
        const int i = at / kTileSide, j = at % kTileSide;
        if (left + j >= l.ld) continue;
        quad(staged + i * kStagedLd + j) =
            quad_by(i, j, quad(m1 + swizzled_index(top + i, left + j, across)));
      }
      ThinTile::sync();
      for (int single = 0; single < singles_of(of_x); single += kTeamThreads * kSinglesAtOnce) {
        float x[kSinglesAtOnce];
        for_each_single(of_x, single, [&](int u, int i, int j) { x[u] = *of_x.at(i, j); });
        for_each_single(of_x, single,
                        [&](int u, int i, int j) { *of_x.at(i, j) = x[u] + staged[i * kStagedLd + j]; });
      }
    }
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_move() { return allow_shared(ThinTile::kSharedBytes, move_points); }

void move(const Context& c, DeviceList<TileIndex> tiles, cudaStream_t stream) {
  launch(move_points, tiles.count, ThinTile::kThreadsWithProducer, ThinTile::kSharedBytes, stream, c,
         tiles.entries);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS

#include "mixed_kernels.h"
#include "thin_tiles.cuh"

// x ← x + τM₁ + F H₁ + (C − τI) M₁.

namespace stiefel::cuda {

namespace {

__global__ void __launch_bounds__(ThinTile::kThreadsWithProducer, 1)
    move_points(Context c, const Place* places) {
  const Place place = places[blockIdx.x];
  const Layout& l = c.layouts[place.matrix];
  const Matrix a = c.matrices[place.matrix];
  const State state = c.states[place.matrix];
  if (state.kept) return;
  const int rows = place.row * kBlock, columns = (place.column + ThinTile::team()) * kBlock,
            across = l.ld / kDepth;
  const Window of_x(a.x, a.x_row, a.x_column, rows, columns, l);
  ThinTile tile;
  if (ThinTile::is_producer()) {
    if (threadIdx.x % 32 == 0)
      tile.produce({{{c.square(l, l.f), place.row * (kBlock / kDepth)}},
                    c.piece(l, kH1),
                    place.column * (kBlock / kDepth),
                    0,
                    2 * l.side / kDepth,
                    l.side / kDepth,
                    (l.c - l.f) / 2,
                    (l.halves[kM1] - l.halves[kH1]) / 2});
    return;
  }
  of_x.prefetch();
  tile.clear();
  tile.consume(2 * l.side / kDepth);
  float* staged = stage(tile);
  const float back = 1 / (state.f_scale * kXScale), along = state.tau / state.m_scale;
  const __half* m1 = c.halves(l.halves[kM1]);
  const auto by = [&](float sum, float m) { return sum * back + along * m; };
  const auto quad_by = [&](int i, int j, const float4& m) {
    const float4 sum = quad(staged + i * kStagedLd + j);
    return make_float4(by(sum.x, m.x), by(sum.y, m.y), by(sum.z, m.z), by(sum.w, m.w));
  };
  if (of_x.by_quads()) {
    for (int base = ThinTile::thread() / 32; base < of_x.rows; base += 4 * kQuadsAtOnce) {
      float4 x[kQuadsAtOnce], m[kQuadsAtOnce];
      for_each_quad(of_x, base, [&](int u, int i, int j) {
        x[u] = quad(of_x.at(i, j));
        m[u] = quad(m1 + place_of(rows + i, columns + j, across));
      });
      for_each_quad(of_x, base, [&](int u, int i, int j) {
        const float4 d = quad_by(i, j, m[u]);
        quad(of_x.at(i, j)) = make_float4(x[u].x + d.x, x[u].y + d.y, x[u].z + d.z, x[u].w + d.w);
      });
    }
  } else {
    for (int at = ThinTile::thread() * 4; at < of_x.rows * kBlock; at += kTeamThreads * 4) {
      const int i = at / kBlock, j = at % kBlock;
      if (columns + j >= l.ld) continue;
      quad(staged + i * kStagedLd + j) = quad_by(i, j, quad(m1 + place_of(rows + i, columns + j, across)));
    }
    ThinTile::meet();
    for (int first = 0; first < singles_of(of_x); first += kTeamThreads * kSinglesAtOnce) {
      float x[kSinglesAtOnce];
      for_each_single(of_x, first, [&](int u, int i, int j) { x[u] = *of_x.at(i, j); });
      for_each_single(of_x, first,
                      [&](int u, int i, int j) { *of_x.at(i, j) = x[u] + staged[i * kStagedLd + j]; });
    }
  }
}

}  // namespace

cudaError_t allow_move() { return allow_shared(move_points, ThinTile::kSharedBytes); }

void move(const Context& c, Blocks<Place> tiles, cudaStream_t stream) {
  move_points<<<tiles.count, ThinTile::kThreadsWithProducer, ThinTile::kSharedBytes, stream>>>(c,
                                                                                               tiles.entries);
}

}  // namespace stiefel::cuda

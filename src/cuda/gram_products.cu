#include "chained_launch.cuh"
#include "mixed_context.cuh"
#include "mixed_kernels.h"
#include "tensor_tile.cuh"

// The products over the long dimension: H₁H₁ᵀ, H₂H₁ᵀ and M₁H₁ᵀ, and after the projection H₁M₁ᵀ and M₁M₁ᵀ. A
// tile's inner dimension may be cut in parts; the kernels that read the sums add them up (gather in
// pair_tiles.cuh).

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

using GramTile = TensorTile<kTileSide, kTileSide, 2, 1, Second::kTransposed, 4>;

__global__ void __launch_bounds__(GramTile::kThreadsWithProducer, 1)
    gram_products(Context c, const Product* products) {
  const Product product = products[blockIdx.x];
  GramTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[product.matrix];
  const auto rows = [&](int t) {
    return GramTile::Rows{c.piece(l, product.parts[t].a), product.parts[t].row * (kTileSide / kBlockSide)};
  };
  const GramTile::Job job{{rows(0), rows(1)},
                          c.piece(l, product.b),
                          product.column * (kTileSide / kBlockSide),
                          product.from,
                          product.to};
  if (GramTile::is_producer()) {
    if (threadIdx.x % 32 == 0) tile.produce(job);
    return;
  }
  const Product::Part part = product.parts[GramTile::team_row()];
  float* out = c.slabs + part.slab * kTileSide * kTileSide;
  const int rounds = product.to - product.from;
  tile.clear();
  for (int run = 0; run < product.runs; ++run) {
    tile.consume(job, rounds * (run + 1) / product.runs - rounds * run / product.runs);
    if (part.own_runs == 1 && run + 1 < product.runs) continue;
    if (part.slab >= 0) {  // not kNoSlab
      tile.for_each_pair([&](int, int row, int column, float first, float second) {
        *reinterpret_cast<float2*>(out + row * kTileSide + column) = make_float2(first, second);
      });
      out += kTileSide * kTileSide;
    }
    tile.clear();
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_gram_products() { return allow_shared(GramTile::kSharedBytes, gram_products); }

void multiply_pieces(const Context& c, DeviceList<Product> products, cudaStream_t stream) {
  launch(gram_products, products.count, GramTile::kThreadsWithProducer, GramTile::kSharedBytes, stream, c,
         products.entries);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS

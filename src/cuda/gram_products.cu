#include "mixed_context.cuh"
#include "mixed_kernels.h"
#include "tensor_tile.cuh"

// The products over the long dimension: H₁H₁ᵀ, H₂H₁ᵀ and M₁H₁ᵀ, and after the projection H₁M₁ᵀ and M₁M₁ᵀ. A
// tile's inner dimension may be cut in parts, whose sums whoever reads them adds up.

namespace stiefel::cuda {

namespace {

using Tile = TensorTile<kBlock, kBlock, 2, 1, Second::kTransposed, 4>;

__global__ void __launch_bounds__(Tile::kThreadsWithProducer, 1)
    multiply(Context c, const Product* products) {
  const Product product = products[blockIdx.x];
  const Layout& l = c.layouts[product.matrix];
  Tile tile;
  if (Tile::is_producer()) {
    if (threadIdx.x % 32 != 0) return;
    const auto rows = [&](int t) {
      return Tile::Rows{c.piece(l, product.parts[t].a), product.parts[t].row * (kBlock / kDepth)};
    };
    tile.produce({{rows(0), rows(1)},
                  c.piece(l, product.b),
                  product.column * (kBlock / kDepth),
                  product.from,
                  product.to});
    return;
  }
  const Product::Part part = product.parts[Tile::team_row()];
  float* out = c.slabs + part.slab * kBlock * kBlock;
  const int rounds = product.to - product.from;
  tile.clear();
  for (int run = 0; run < product.runs; ++run) {
    tile.consume(rounds * (run + 1) / product.runs - rounds * run / product.runs);
    if (part.own_runs == 1 && run + 1 < product.runs) continue;
    if (part.slab >= 0) {
      tile.for_each_pair([&](int, int row, int column, float first, float second) {
        *reinterpret_cast<float2*>(out + row * kBlock + column) = make_float2(first, second);
      });
      out += kBlock * kBlock;
    }
    tile.clear();
  }
}

}  // namespace

cudaError_t allow_gram_products() { return allow_shared(multiply, Tile::kSharedBytes); }

void multiply_pieces(const Context& c, Blocks<Product> products, cudaStream_t stream) {
  multiply<<<products.count, Tile::kThreadsWithProducer, Tile::kSharedBytes, stream>>>(c, products.entries);
}

}  // namespace stiefel::cuda

#include <algorithm>

#include "relu_rows.cuh"

namespace stiefel::models::cuda::relu {

namespace {

int processors() {
  int device = 0, count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

int share(int total, int parts) { return (total + parts - 1) / parts; }

dim3 grid_of(int blocks, const Tiling& tiling) {
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(tiling.tiles));
}

}  // namespace

Launch sums_launch(const ReluShape& shape) {
  const bool few = shape.rows <= 4 * kSumThreads;
  const auto tiling = tiling_of(shape.channels, kSumThreads, few ? kFewLanes : kMostLanes);
  const int blocks = std::min(share(processors(), tiling.tiles), share(shape.rows, 4 * tiling.rows));
  return {tiling, grid_of(few ? 1 : blocks, tiling)};
}

Launch rows_launch(const ReluShape& shape) {
  const int rows = shape.out_rows();
  const auto tiling = tiling_of(shape.channels, kRowThreads, kMostLanes);
  const int blocks = std::max(share(4 * processors(), tiling.tiles), share(rows, 8 * tiling.rows));
  return {tiling, grid_of(std::min(blocks, share(rows, tiling.rows)), tiling)};
}

bool normalized_relu_fits(int channels) {
  return channels > 0 && channels % kEight == 0 &&
         tiling_of(channels, kSumThreads, kMostLanes).tiles <= kCounters;
}

size_t partial_floats(const ReluShape& shape) {
  const auto sums = sums_launch(shape);
  return static_cast<size_t>(sums.grid.x) * sums.grid.y * sums.tiling.lanes * 2 * kEight;
}

}  // namespace stiefel::models::cuda::relu

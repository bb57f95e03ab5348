#pragma once

#include <mutex>

#include "recurrence_kernels.h"
#include "slab.cuh"

/// Launches of kernels whose blocks come in clusters.
namespace stiefel::models::cuda::cluster {

inline cudaLaunchConfig_t configuration(int blocks, int clusters, size_t bytes, cudaStream_t stream,
                                        cudaLaunchAttribute& attribute) {
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks * clusters));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

/// Whether a device can run a kernel, and how many clusters of it.
struct Room {
  cudaError_t status = cudaErrorNotReady;
  int clusters = 0;  // at once
};

/// Lets a kernel use its shared memory and its cluster size, and queries how many clusters run at once.
template <class Kernel>
Room make_room(Kernel kernel, int blocks, size_t bytes) {
  Room room;
  room.status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (room.status == cudaSuccess && blocks > 8)
    room.status = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (room.status == cudaSuccess) {
    cudaLaunchAttribute attribute;
    const auto config = configuration(blocks, 1, bytes, nullptr, attribute);
    room.status = cudaOccupancyMaxActiveClusters(&room.clusters, kernel, &config);
  }
  if (room.status == cudaSuccess && room.clusters < 1) room.status = cudaErrorLaunchOutOfResources;
  if (room.status != cudaSuccess) cudaGetLastError();  // the answer is no; nothing has failed
  return room;
}

/// The current device's room for a kernel, queried once per device.
template <auto kKernel, int P, int kBlocks>
Room room_for() {
  constexpr int kDevices = 64;
  static std::once_flag asked[kDevices];
  static Room rooms[kDevices];
  int device = 0;
  Room none;
  none.status = cudaGetDevice(&device);
  if (none.status != cudaSuccess) return none;
  if (device >= kDevices) return Room{cudaErrorNotSupported, 0};
  std::call_once(asked[device], [&] {
    rooms[device] = make_room(kKernel, kBlocks, SlabSizes<P, kBlocks>::bytes(kMostTiles));
  });
  return rooms[device];
}

/// Tiles per cluster, so that the batch takes the fewest turns: clusters beyond those that the device holds
/// at once wait. Of two that tie, the one whose tiles hide each other's exchange.
inline int tiles_for(int batch, int clusters) {
  const int all = (batch + kTileRows - 1) / kTileRows;
  int best = 1, best_turns = 0;
  for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
    const int rounds = (all + tiles * clusters - 1) / (tiles * clusters);
    if (tiles == 1 || rounds * tiles <= best_turns) {
      best = tiles;
      best_turns = rounds * tiles;
    }
  }
  return best;
}

template <auto kKernel, int P, int kBlocks, class Pass>
cudaError_t launch(const RecurrenceShape& shape, const Pass& pass, cudaStream_t stream) {
  const Room room = room_for<kKernel, P, kBlocks>();
  if (room.status != cudaSuccess) return room.status;
  const int tiles = tiles_for(shape.batch, room.clusters);
  const int clusters = (shape.batch + tiles * kTileRows - 1) / (tiles * kTileRows);
  cudaLaunchAttribute attribute;
  const auto config =
      configuration(kBlocks, clusters, SlabSizes<P, kBlocks>::bytes(tiles), stream, attribute);
  return cudaLaunchKernelEx(&config, kKernel, shape, pass, tiles);
}

}  // namespace stiefel::models::cuda::cluster

#pragma once

#include <cuda_runtime_api.h>

#include "generation.h"
#include "mixed_step.h"

/// The launches of a mixed step on its matrices, in the order in which they run (multiply_pieces twice, and
/// find_gram_root several); mixed_step.cu says what each computes.
namespace stiefel::cuda {

struct Context;

/// Lets kernels have so much dynamic shared memory.
template <class... Kernels>
cudaError_t allow_shared(int bytes, Kernels*... kernels) {
  for (const void* kernel : {reinterpret_cast<const void*>(kernels)...}) {
    const auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

namespace STIEFEL_KERNELS {

/// A list in device memory, one entry per block.
template <class Entry>
struct DeviceList {
  const Entry* entries;
  int count;
};

void split_rows(const Context& c, DeviceList<RowIndex> rows, const Recipe& recipe, size_t widest,
                cudaStream_t stream);
void multiply_pieces(const Context& c, DeviceList<Product> products, cudaStream_t stream);
void find_normal_part(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream);
void project(const Context& c, DeviceList<TileIndex> tiles, const Recipe& recipe, cudaStream_t stream);
void find_tangent_part(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                       cudaStream_t stream);
void find_gram_outside(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                       cudaStream_t stream);
/// Cayley Muon only.
void find_gram_root(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe, cudaStream_t stream);
void find_polar_direction(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream);
void multiply_coefficients(const Context& c, DeviceList<TileIndex> squares, bool polar, cudaStream_t stream);
void finish_coefficients(const Context& c, DeviceList<TileIndex> pairs, bool polar, cudaStream_t stream);
/// Cayley Muon only.
void apply_polar_direction(const Context& c, DeviceList<TileIndex> squares, cudaStream_t stream);
void move(const Context& c, DeviceList<TileIndex> tiles, cudaStream_t stream);

/// Lets the kernels of each file use the shared memory that they need. Once per device, before the first
/// launch.
cudaError_t allow_split_rows();
cudaError_t allow_gram_products();
cudaError_t allow_coefficients();
cudaError_t allow_gram_root();
cudaError_t allow_polar_direction();
cudaError_t allow_projection();
cudaError_t allow_move();

}  // namespace STIEFEL_KERNELS

}  // namespace stiefel::cuda

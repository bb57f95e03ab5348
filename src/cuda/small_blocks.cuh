#pragma once

#include "small_kernel.cuh"

/// The sizes for which there are kernels, the cheapest first among those that a shape fits. Warps' tiles have
/// 32×32 entries where they can: fewer would be more reads of shared memory per product, more would not fit
/// in registers.
namespace stiefel::cuda {

template <class... Blocks>
struct BlockList {};

/// On tensor cores. All but the last need at most the 99 KB of shared memory that cards of 8.6 and 8.9 have.
template <class Products>
using HalfBlocks =
    BlockList<SmallBlock<Products, 16, 16, 16, 16, true>, SmallBlock<Products, 32, 32, 16, 32, true>,
              SmallBlock<Products, 64, 64, 32, 32, true>, SmallBlock<Products, 128, 128, 32, 32, true>,
              SmallBlock<Products, 16, 64, 16, 32, false>, SmallBlock<Products, 32, 64, 32, 32, false>,
              SmallBlock<Products, 32, 128, 32, 32, false>, SmallBlock<Products, 64, 64, 32, 32, false>,
              SmallBlock<Products, 64, 128, 32, 32, false>, SmallBlock<Products, 64, 256, 32, 32, false>,
              SmallBlock<Products, 128, 128, 32, 32, false>>;

/// In floats: what fits in the 64 KB of shared memory that cards of 7.5 have.
template <class Products>
using FloatBlocks =
    BlockList<SmallBlock<Products, 16, 16, 16, 16, true>, SmallBlock<Products, 32, 32, 16, 32, true>,
              SmallBlock<Products, 64, 64, 32, 32, true>, SmallBlock<Products, 16, 64, 16, 32, false>,
              SmallBlock<Products, 32, 64, 32, 32, false>, SmallBlock<Products, 32, 128, 32, 32, false>>;

/// What the host knows of a list's kernels, which need `kCapability`.
template <int kCapability, class... Blocks>
SmallForms small_forms(BlockList<Blocks...>) {
  static const SmallForm forms[] = {{Blocks::kP, Blocks::kN, Blocks::kSquare, Blocks::kThreads,
                                     Blocks::kSharedBytes, kCapability, small_step_kernel<Blocks>}...};
  return {forms, static_cast<int>(sizeof...(Blocks))};
}

}  // namespace stiefel::cuda

#pragma once

#include "generation.h"

/// A tile of a half-precision product by one block: operands through shared memory, products by tensor cores,
/// sums in float32 registers. Both tiles have the same members, so that a kernel is written once:
///
///     Tile tile;
///     if (Tile::is_producer()) {  // Hopper only: a warp that loads for the others
///       if (threadIdx.x % 32 == 0) tile.produce(job);
///       return;
///     }
///     tile.clear();
///     tile.consume(job, rounds);  // rounds of the job, in one call or in several
///     tile.for_each_pair(…);
#if STIEFEL_FOR_HOPPER
#include "hopper_tile.cuh"
#else
#include "ampere_tile.cuh"
#endif

#pragma once

#include <cuda_fp16.h>

#include "half_block.h"

namespace stiefel::cuda {

static_assert(sizeof(__half) == 2, "half_block.h counts two bytes per half");

/// A matrix of halves as an operand of a product: its blocks down and across.
struct Operand {
  const __half* data;
  int down;
  int across;
};

}  // namespace stiefel::cuda

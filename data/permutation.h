#pragma once

#include <ATen/core/Tensor.h>

#include "data/seeds.h"

namespace stiefel::data {

/// The numbers 0 … n−1 in random order: int64, on the CPU.
at::Tensor permutation(int64_t n, Stream stream);

}  // namespace stiefel::data

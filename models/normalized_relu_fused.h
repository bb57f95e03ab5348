#pragma once

#include <optional>

#include "normalized_relu.h"

namespace stiefel::models::detail {

/// relu(norm(branch + shortcut)), and with `pooled` the largest of each 2×2 square of it, by the kernels of
/// models/cuda; nothing where they have no place: another norm than a batch norm in training, other images
/// than channels-last ones on a GPU, a build without CUDA.
std::optional<SumAndRelu> fused_relu(const torch::nn::AnyModule& norm, const Terms& terms, bool pooled);

}  // namespace stiefel::models::detail

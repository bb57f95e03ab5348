#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stiefel::record {

/// Tensors in the safetensors format: eight bytes of length, a JSON header with the type, shape and place of
/// each tensor, then their bytes.
std::string to_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                           const std::map<std::string, std::string>& metadata);

}  // namespace stiefel::record

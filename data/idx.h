#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

namespace stiefel::data {

/// Reads an IDX file of unsigned bytes, the format of MNIST and Fashion-MNIST, plain or gzipped: a tensor of
/// the shape that its header states. Throws std::runtime_error naming the file, the byte and what was
/// expected where the file is missing, of another kind, truncated, or longer than its header says.
at::Tensor read_idx(const std::filesystem::path& file);

}  // namespace stiefel::data

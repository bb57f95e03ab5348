#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stiefel::data {

/// What a file may hold: up to `most` items, each of the shape `each`.
struct IdxItems {
  int64_t most;
  std::vector<int64_t> each;  ///< empty: an item is a single byte
  std::string name;           ///< of the items, for messages: "images"
};

/// Reads an IDX file of unsigned bytes, the format of MNIST and Fashion-MNIST, plain or gzipped: a tensor of
/// the shape that its header states, (count, each…). Throws std::runtime_error naming the file, the byte and
/// what was expected where the file is missing, of another kind or shape, truncated, or longer than its
/// header says. The header is checked before memory is taken for what it announces.
at::Tensor read_idx(const std::filesystem::path& file, const IdxItems& items);

}  // namespace stiefel::data

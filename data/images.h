#pragma once

#include <ATen/core/Tensor.h>

namespace stiefel::data {

/// Pictures and what they show, as they lie on disk.
struct Images {
  at::Tensor pixels;  ///< uint8 (N, channels, height, width)
  at::Tensor labels;  ///< int64 (N)

  int64_t size() const { return labels.defined() ? labels.size(0) : 0; }
};

}  // namespace stiefel::data

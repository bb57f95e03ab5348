#include "lipschitz_layers.h"

#include <ATen/ATen.h>

#include <vector>

namespace stiefel::models {

namespace {

// Pieces are split and joined, not narrowed: the gradient of a split is one tensor, that of each narrowed
// piece one as large as the whole.

/// Moved by one pixel along a dimension, forward or back. (at::roll would give up the channels-last layout.)
at::Tensor rolled(const at::Tensor& x, int64_t dim, bool forward) {
  const auto last = x.size(dim) - 1;
  const auto parts = forward ? x.split_with_sizes({last, 1}, dim) : x.split_with_sizes({1, last}, dim);
  return at::cat({parts[1], parts[0]}, dim);
}

/// The halves of the channels.
std::vector<at::Tensor> halves(const at::Tensor& x) {
  const auto first = x.size(1) / 2;
  return x.split_with_sizes({first, x.size(1) - first}, 1);
}

at::Tensor shift_halves(const at::Tensor& first, const at::Tensor& second) {
  const auto channels = first.size(1) + second.size(1);
  TORCH_CHECK(first.dim() == 4 && channels % 8 == 0,
              "shift: expected (N, C, H, W) with C a multiple of 8, got ", channels, " channels");
  const auto eighth = channels / 8;
  const auto a = first.split_with_sizes({2 * eighth, eighth, eighth}, 1);
  const auto b = second.split_with_sizes({eighth, eighth, 2 * eighth}, 1);
  return at::cat({a[0], rolled(a[1], 2, true), rolled(a[2], 3, true), rolled(b[0], 2, false),
                  rolled(b[1], 3, false), b[2]},
                 1);
}

}  // namespace

at::Tensor space_to_depth(const at::Tensor& x, int64_t factor) { return at::pixel_unshuffle(x, factor); }

at::Tensor fold(const at::Tensor& x) {
  const auto parts = halves(x);
  return at::cat({parts[0].abs(), parts[1]}, 1);
}

at::Tensor shift(const at::Tensor& x) {
  const auto parts = halves(x);
  return shift_halves(parts[0], parts[1]);
}

at::Tensor fold_and_shift(const at::Tensor& x) {
  const auto parts = halves(x);
  return shift_halves(parts[0].abs(), parts[1]);
}

}  // namespace stiefel::models

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Layers without parameters that never take two inputs further apart, in the Euclidean norm over all numbers
/// of an item: ‖f(a) − f(b)‖ ≤ ‖a − b‖. Items are the first dimension, channels the second. All are made of
/// LibTorch's operators, wait for nothing and have a gradient everywhere.
namespace stiefel::models {

/// Squares of `factor` × `factor` pixels become channels: (N, C, H, W) to (N, C·factor², H/factor, W/factor).
/// Only the order of the numbers changes: ‖f(a) − f(b)‖ = ‖a − b‖.
at::Tensor space_to_depth(const at::Tensor& x, int64_t factor);

/// The absolute value of the first half of the channels; the others as they are. Each number moves by no more
/// than its input did, since ||a| − |b|| ≤ |a − b|, and lengths are kept: ‖f(x)‖ = ‖x‖. Between two mixings
/// of channels it can express what MaxMin does, max and min = (a + b)/2 ± |a − b|/2 being this in channels
/// that are turned by 45°, at the price of one operator less.
at::Tensor fold(const at::Tensor& x);

/// Moves the middle half of the channels by one pixel, an eighth of all channels down, right, up and left
/// each; what leaves the image on one side enters it on the other. Only the order of the numbers changes:
/// ‖f(a) − f(b)‖ = ‖a − b‖. The number of channels must be a multiple of 8.
at::Tensor shift(const at::Tensor& x);

/// shift(fold(x)) in one pass: two of the four directions are of folded channels.
at::Tensor fold_and_shift(const at::Tensor& x);

}  // namespace stiefel::models

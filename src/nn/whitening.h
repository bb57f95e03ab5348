#pragma once

#include <ATen/ATen.h>

#include <vector>

/// The arithmetic of decorrelated batch normalisation: statistics of groups of channels, and group-wise
/// linear maps of activations (N, C, H, W).
namespace stiefel::nn {

/// Groups of equal size among the channels: all of them, or all but a last smaller one, or that one.
struct ChannelGroups {
  int64_t first;   ///< channel
  int64_t groups;  ///< g
  int64_t size;    ///< s

  int64_t channels() const { return groups * size; }

  /// This part of a vector (C) as (g, s), and of a matrix (C, G) whose rows hold each group's own as (g, s,
  /// s).
  at::Tensor vector(const at::Tensor& t) const;
  at::Tensor blocks(const at::Tensor& t) const;
};

/// C channels in groups of `group_size`: one part, or two where a smaller group is left over.
std::vector<ChannelGroups> channel_groups(int64_t channels, int64_t group_size);

/// What whitening a batch gives.
struct Whitened {
  at::Tensor output;     ///< Y = γ(P(X − μ)) + β, differentiable in X, γ and β, laid out as the input
  at::Tensor mean;       ///< μ (C)
  at::Tensor whitening;  ///< P (C, G), zeros behind the rows of a smaller group
};

/// Whitens a batch by its own statistics. γ and β are undefined, or (C) both.
Whitened whiten(const at::Tensor& input, const at::Tensor& gamma, const at::Tensor& beta, int64_t group_size,
                double eps);

/// Maps each group of channels by its own matrix and adds a bias: y = Wx + b, with W as `blocks` reads it.
/// LibTorch's own operations alone, so that it can be differentiated.
at::Tensor map_groups(const at::Tensor& input, const at::Tensor& matrix, const at::Tensor& bias,
                      int64_t group_size);

}  // namespace stiefel::nn

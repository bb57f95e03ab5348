#pragma once

#include <cstdint>

#include "pixel_network.h"

namespace stiefel::train {

/// Projected gradient descent on the margin, in the Euclidean norm (Madry et al., ICLR 2018, arXiv
/// 1706.06083).
struct AttackOptions {
  double radius = 36.0 / 255;  ///< the longest perturbation, in pixels from 0 to 1
  int64_t steps = 50;
  int64_t restarts = 1;  ///< the first from the image itself, others from random places in the ball
  uint64_t seed = 1;
};

/// What an attack has found of some images.
struct Attacked {
  at::Tensor broken;   ///< bool: some perturbed image had another class than the label
  at::Tensor changed;  ///< bool: some perturbed image had another class than the image itself
  at::Tensor longest;  ///< double: the longest perturbation that was tried
};

/// Attacks each of the images (N, channels, 32, 32), pixels from 0 to 1 in the network's type. Perturbed
/// images keep their pixels from 0 to 1 and are within the radius. What it does not break is not proved: it
/// is an upper bound on the accuracy that is left, where a certificate is a lower one.
Attacked attack(const PixelNetwork& network, const at::Tensor& pixels, const at::Tensor& labels,
                const AttackOptions& options);

}  // namespace stiefel::train

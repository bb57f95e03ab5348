#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "train/resolve_config.h"

namespace stiefel::train {

/// The names that `--loss` takes.
std::vector<std::string> loss_names();

/// Whether a loss of this name asks for a margin, which only Lipschitz-bounded networks have a unit for.
bool is_margin_loss(const std::string& name);

/// The mean loss of scores s (N, classes) for classes y, as `--loss` names it. T is --temperature, by which
/// scores are multiplied before a softmax: the margins of a network that is 1-Lipschitz are short, and T says
/// how much of one counts as certain (Béthune et al., NeurIPS 2022, arXiv 2104.05097, have it that way
/// around). m = √2·L·ε is the margin that certifies ε = --margin-radius where the rows of the head are
/// orthonormal and L is the factor of the input's normalisation.
///
///   cross-entropy          CE(T·s, y)
///   offset-cross-entropy   CE(T·(s − m·e_y), y): Prach and Lampert, ECCV 2022, arXiv 2208.03160
///   emma                   CE(T·(s + clip(s_y − s, 0, m)), y), the clipped margin without a gradient: each
///                          class is asked for the radius that it has, up to ε (Hu et al., NeurIPS 2023,
///                          arXiv 2301.12549)
///   hinge                  Σ_{j≠y} max(0, m − (s_y − s_j)) (Béthune et al. for two classes)
///
/// It waits for nothing on a device.
class ClassificationLoss {
 public:
  /// `input_factor` is L: by how much the normalisation stretches differences of pixels.
  ClassificationLoss(const Config& config, double input_factor);

  at::Tensor operator()(const at::Tensor& scores, const at::Tensor& targets) const;

 private:
  std::string name_;
  double temperature_;
  double margin_;
};

}  // namespace stiefel::train

#pragma once

#include <string>

#include "models/lipschitz_net.h"
#include "pixel_network.h"

namespace stiefel::train {

/// What is certified of some images.
struct Certified {
  at::Tensor predicted;  ///< int64: the class of the largest score
  at::Tensor margin;     ///< double: how far that score is above the second
  at::Tensor radius;     ///< double: no perturbation shorter than this changes the prediction
};

/// The certificate of a trained LipschitzNetwork: a bound on how far its scores can move, from the weights as
/// they are, and what follows for a prediction.
///
/// Let f be the network as a function of raw pixels, h all of it before the last mixing s = Wh + b. Every
/// layer between mixings is 1-Lipschitz, so h is L-Lipschitz with L = (1/min deviation) ∏ ‖W_k‖₂ over the
/// mixings before the last, and a difference of scores s_i − s_j = (w_i − w_j)ᵀh + b_i − b_j is
/// L‖w_i − w_j‖-Lipschitz. While ‖δ‖ < (s_i − s_j)/(L‖w_i − w_j‖) it stays positive for every j ≠ i, and i
/// stays the prediction.
///
/// Three things are measured, not assumed: ‖W_k‖₂, which is √(1 + λ) with λ the largest eigenvalue of the
/// weight's defect W_kW_kᵀ − I; the distances ‖w_i − w_j‖; and a bound on what rounding can move a score, at
/// the image and anywhere in the ball, which is taken off every margin first. The statement is about the
/// network in float64, in which it is evaluated here.
class Certificate {
 public:
  /// Throws std::invalid_argument where the network is not Lipschitz-bounded or not in float64.
  explicit Certificate(const PixelNetwork& network);

  /// Of raw images, pixels from 0 to 1.
  Certified certify(const at::Tensor& pixels) const;

  /// L.
  double lipschitz() const { return lipschitz_; }

  /// A bound on ‖s − s̃‖ of the computed scores s̃ of every image whose normalised length is at most this.
  double rounding(double length) const;

 private:
  const PixelNetwork& network_;
  const models::LipschitzNetwork& layers_;
  double input_factor_;
  double lipschitz_;
  at::Tensor pair_distances_;  // (classes, classes): ‖w_i − w_j‖
};

/// An upper bound on ‖W‖₂ of a weight read as a matrix, from the eigenvalues of its defect; infinite where
/// the weight is not finite.
double spectral_norm_bound(const at::Tensor& weight);

/// Throws std::invalid_argument that names what is needed where a network of this name has no certificate.
void require_certifiable(const std::string& model);

}  // namespace stiefel::train

#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>
#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <ostream>

/// Decorrelated batch normalisation (Huang et al., CVPR 2018).
namespace stiefel::nn {

struct STIEFEL_API DecorrelatedBatchNormOptions {
  DecorrelatedBatchNormOptions(int64_t num_features);  // NOLINT: implicit, as LibTorch's own options are

  /// Throws c10::Error naming the first value that is out of range.
  void validate() const;

  /// C, the channels of the input.
  TORCH_ARG(int64_t, num_features);

  /// The channels that are whitened together. Where C is no multiple of it, the last group is smaller.
  TORCH_ARG(int64_t, group_size) = 16;

  /// ε, added to each variance. It bounds what whitening magnifies by 1/√ε: 32 at 1e-3. Batch norm's 1e-5
  /// would be 316, and the smallest eigenvalue of a group, unlike a variance, is often mostly noise.
  TORCH_ARG(double, eps) = 1e-3;

  /// How much of a batch goes into the running mean and whitening matrix.
  TORCH_ARG(double, momentum) = 0.1;

  /// Whether the output is scaled by γ and shifted by β, both learned.
  TORCH_ARG(bool, affine) = true;
};

/// Batch normalisation that removes the correlation of channels too. In training, with X (G×m) the
/// activations of a group of channels over the m = NHW places of a batch,
///
///     X_c = X − μ,  Σ = X_cX_cᵀ/m + εI,  P = Σ^(−½),  Y = γ(PX_c) + β;
///
/// in evaluation μ and P are their running means. P is symmetric (ZCA), so the output stays as close to the
/// input as a white one can. Input (N, C, H, W); the output has its memory format. Activations that are not
/// finite give output that is not finite, as with batch norm. In training it can be differentiated once.
class STIEFEL_API DecorrelatedBatchNorm2dImpl : public torch::nn::Cloneable<DecorrelatedBatchNorm2dImpl> {
 public:
  explicit DecorrelatedBatchNorm2dImpl(const DecorrelatedBatchNormOptions& options_);

  void reset() override;

  /// γ = 1, β = 0, and the running statistics of white input.
  void reset_parameters();

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  DecorrelatedBatchNormOptions options;
  at::Tensor weight;             ///< γ (C); undefined without affine
  at::Tensor bias;               ///< β (C); undefined without affine
  at::Tensor running_mean;       ///< (C)
  at::Tensor running_whitening;  ///< (C, G): row c is its channel's row of its group's P, zeros behind

 private:
  at::Tensor evaluate(const at::Tensor& input) const;
};

TORCH_MODULE(DecorrelatedBatchNorm2d);

}  // namespace stiefel::nn

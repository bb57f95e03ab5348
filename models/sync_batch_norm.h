#pragma once

#include <stiefel/ranks.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <memory>

namespace stiefel::models {

/// Batch normalization whose mean and variance are those of the batches of all ranks together, for training
/// with more than one process. The gradient is exact: it goes through the statistics back to every rank's
/// inputs. Parameters, buffers and their names are those of BatchNorm2d, and so is what it computes in
/// evaluation, where ranks have nothing to tell each other.
///
/// One gathering forward, of each rank's mean, sum of squared deviations and count, which Chan's formula
/// merges without the cancellation that a sum of squares has; one all-reduce backward.
class SyncBatchNorm2dImpl
    : public torch::nn::NormImplBase<2, SyncBatchNorm2dImpl, torch::nn::BatchNormOptions> {
 public:
  SyncBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, std::shared_ptr<Ranks> ranks);

  at::Tensor forward(const at::Tensor& input);

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  std::shared_ptr<Ranks> ranks_;
};
TORCH_MODULE(SyncBatchNorm2d);

}  // namespace stiefel::models

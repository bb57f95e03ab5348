#include <ATen/core/grad_mode.h>
#include <stiefel/nn/decorrelated_batch_norm.h>

#include <cmath>

#include "whitening.h"

namespace stiefel::nn {

DecorrelatedBatchNormOptions::DecorrelatedBatchNormOptions(int64_t num_features)
    : num_features_(num_features) {}

void DecorrelatedBatchNormOptions::validate() const {
  TORCH_CHECK(num_features_ > 0, "stiefel: num_features must be positive; got ", num_features_);
  TORCH_CHECK(group_size_ > 0, "stiefel: group_size must be positive; got ", group_size_);
  TORCH_CHECK(eps_ > 0 && std::isfinite(eps_), "stiefel: eps must be positive and finite, since a constant ",
              "channel has no other variance; got ", eps_);
  TORCH_CHECK(momentum_ >= 0 && momentum_ <= 1, "stiefel: momentum must be in [0, 1]; got ", momentum_);
}

DecorrelatedBatchNorm2dImpl::DecorrelatedBatchNorm2dImpl(const DecorrelatedBatchNormOptions& options_)
    : options(options_) {
  DecorrelatedBatchNorm2dImpl::reset();
}

void DecorrelatedBatchNorm2dImpl::reset() {
  options.validate();
  const int64_t c = options.num_features();
  if (options.affine()) {
    weight = register_parameter("weight", at::empty({c}));
    bias = register_parameter("bias", at::empty({c}));
  }
  running_mean = register_buffer("running_mean", at::empty({c}));
  running_whitening = register_buffer("running_whitening", at::empty({c, std::min(c, options.group_size())}));
  reset_parameters();
}

void DecorrelatedBatchNorm2dImpl::reset_parameters() {
  const at::NoGradGuard no_grad;
  if (options.affine()) {
    weight.fill_(1);
    bias.zero_();
  }
  running_mean.zero_();
  running_whitening.zero_();
  for (const auto& part : channel_groups(options.num_features(), options.group_size())) {
    part.blocks(running_whitening).diagonal(0, 1, 2).fill_(1);
  }
}

at::Tensor DecorrelatedBatchNorm2dImpl::forward(const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 4 && input.size(1) == options.num_features(),
              "stiefel: DecorrelatedBatchNorm2d takes input (N, ", options.num_features(),
              ", H, W); got the shape ", input.sizes());
  TORCH_CHECK(input.is_floating_point(), "stiefel: DecorrelatedBatchNorm2d takes real floating-point input; ",
              "got ", input.scalar_type());
  // Reduced-precision activations are whitened in the type of the statistics.
  const auto x = input.to(running_mean.scalar_type());
  if (!is_training()) return evaluate(x).to(input.scalar_type());
  const int64_t places = input.numel() / options.num_features();
  TORCH_CHECK(places >= 2,
              "stiefel: DecorrelatedBatchNorm2d in training needs two values a channel or more; ",
              "input of shape ", input.sizes(), " has ", places);
  const auto result = whiten(x, weight, bias, options.group_size(), options.eps());
  const at::NoGradGuard no_grad;
  running_mean.lerp_(result.mean, options.momentum());
  running_whitening.lerp_(result.whitening, options.momentum());
  return result.output.to(input.scalar_type());
}

at::Tensor DecorrelatedBatchNorm2dImpl::evaluate(const at::Tensor& input) const {
  // γ(P(X − μ)) + β as one map with the matrix γP and the bias β − γPμ. P's rows lie group by group.
  std::vector<at::Tensor> shifts;
  for (const auto& part : channel_groups(options.num_features(), options.group_size())) {
    const auto mean = part.vector(running_mean).unsqueeze(-1);
    shifts.push_back(at::matmul(part.blocks(running_whitening), mean).flatten().neg());
  }
  const auto shift = at::cat(shifts);
  if (!options.affine()) return map_groups(input, running_whitening, shift, options.group_size());
  return map_groups(input, weight.unsqueeze(1) * running_whitening, bias + weight * shift,
                    options.group_size());
}

void DecorrelatedBatchNorm2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "stiefel::nn::DecorrelatedBatchNorm2d(" << options.num_features()
         << ", group_size=" << options.group_size() << ", eps=" << options.eps()
         << ", momentum=" << options.momentum() << ", affine=" << options.affine() << ")";
}

}  // namespace stiefel::nn

#include "sync_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/utils.h>

#include <utility>

namespace stiefel::models {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// How the ranks travel from the forward pass to the backward one.
struct RanksHolder : torch::CustomClassHolder {
  explicit RanksHolder(std::shared_ptr<Ranks> held) : ranks(std::move(held)) {}
  std::shared_ptr<Ranks> ranks;
};

/// All dimensions but the channels'.
std::vector<int64_t> over_all(const at::Tensor& x) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

/// Numbers per channel, as they go with (N, channels, …).
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

/// What is summed up in no less than float.
at::Tensor at_least_float(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

/// Of the inputs of all ranks, in double: mean and variance per channel, and how many numbers a channel has.
struct Statistics {
  at::Tensor mean, variance, count;
};

Statistics statistics_of(const at::Tensor& x, Ranks& ranks) {
  const auto [variance, mean] = at::var_mean(x, over_all(x), /*unbiased=*/false, /*keepdim=*/false);
  const auto on = at::TensorOptions(at::kDouble).device(x.device());
  const auto count = at::full_like(mean, static_cast<double>(x.numel() / x.size(1)), on);
  const auto own = at::stack({mean.to(at::kDouble), variance.to(at::kDouble) * count, count});
  const auto all = ranks.gather(own);  // (ranks, 3, channels)
  const auto means = all.select(1, 0), deviations = all.select(1, 1), counts = all.select(1, 2);
  // Chan's formula for any number of parts: M₂ = Σ M₂ᵣ + nᵣ(μᵣ − μ)².
  const auto total = counts.sum(0);
  const auto merged = (counts * means).sum(0) / total;
  const auto squares = (deviations + counts * (means - merged).square()).sum(0);
  return {merged, squares / total, total};
}

/// y = γ(x − μ)/σ + β with μ and σ over all ranks; outputs y and what the running statistics need.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, const std::shared_ptr<Ranks>& ranks, double epsilon) {
    const auto x = at_least_float(input);
    const auto statistics = statistics_of(x, *ranks);
    const auto type = x.scalar_type();
    const auto mean = statistics.mean.to(type);
    const auto inverse = (statistics.variance + epsilon).rsqrt().to(type);
    context->save_for_backward({input, weight, mean, inverse, statistics.count});
    context->saved_data["ranks"] = c10::IValue::make_capsule(c10::make_intrusive<RanksHolder>(ranks));
    auto y = (x - per_channel(mean, x)).mul_(per_channel(inverse * weight, x)).add_(per_channel(bias, x));
    const auto unbiased = statistics.variance * (statistics.count / (statistics.count - 1));
    auto of_batch = at::stack({statistics.mean, unbiased}).to(weight.scalar_type());
    context->mark_non_differentiable({of_batch});
    return {y.to(input.scalar_type()), of_batch};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "stiefel: batch normalization over all processes can be differentiated once");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const auto& count = saved[4];
    const auto ranks =
        c10::static_intrusive_pointer_cast<RanksHolder>(context->saved_data["ranks"].toCapsule())->ranks;
    const auto x = at_least_float(input);
    const auto g = gradients[0].to(x.scalar_type());
    const auto normalized = (x - per_channel(mean, x)).mul_(per_channel(inverse, x));
    const auto of_bias = g.sum(over_all(x));
    const auto of_weight = (g * normalized).sum(over_all(x));
    // Σg and Σg·x̂ over all ranks are what the gradient loses through the mean and the variance:
    // ∂x = (γ/σ)(g − Σg/n − x̂ Σ(g·x̂)/n).
    auto sums = at::stack({of_bias, of_weight}).to(at::kDouble);
    ranks->sum_(sums);
    const auto means = (sums / count).to(x.scalar_type());
    const auto of_x = (g - per_channel(means[0], x))
                          .sub_(normalized * per_channel(means[1], x))
                          .mul_(per_channel(inverse * weight, x));
    return {of_x.to(input.scalar_type()), of_weight, of_bias, {}, {}};
  }
};

}  // namespace

SyncBatchNorm2dImpl::SyncBatchNorm2dImpl(const torch::nn::BatchNormOptions& options,
                                         std::shared_ptr<Ranks> ranks)
    : NormImplBase(options), ranks_(std::move(ranks)) {
  TORCH_CHECK(options.affine() && options.track_running_stats() && options.momentum().has_value(),
              "stiefel: batch normalization over all processes has a scale, a shift and running statistics "
              "with a momentum; leave these options as they are");
}

void SyncBatchNorm2dImpl::_check_input_dim(const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 4, "stiefel: expected images (N, channels, height, width); got ", input.sizes());
}

at::Tensor SyncBatchNorm2dImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  if (!is_training()) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false,
                          *options.momentum(), options.eps(), at::globalContext().userEnabledCuDNN());
  }
  const auto outputs = Normalize::apply(input, weight, bias, ranks_, options.eps());
  const at::NoGradGuard no_grad;
  const double momentum = *options.momentum();
  num_batches_tracked += 1;
  running_mean.mul_(1 - momentum).add_(outputs[1][0], momentum);
  running_var.mul_(1 - momentum).add_(outputs[1][1], momentum);
  return outputs[0];
}

}  // namespace stiefel::models

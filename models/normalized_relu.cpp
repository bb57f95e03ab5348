#include "normalized_relu.h"

#include <ATen/ops/max_pool2d.h>

#include "normalized_relu_fused.h"

namespace stiefel::models {

namespace detail {

#if !STIEFEL_HAS_CUDA
std::optional<SumAndRelu> fused_relu(const torch::nn::AnyModule&, const Terms&, bool) { return std::nullopt; }
#endif

}  // namespace detail

SumAndRelu summed_relu(torch::nn::AnyModule& norm, const Terms& terms) {
  if (auto fused = detail::fused_relu(norm, terms, /*pooled=*/false)) return *fused;
  const auto sum = terms.shortcut.defined() ? terms.branch + terms.shortcut : terms.branch;
  return {sum, norm.forward(sum).relu_()};
}

at::Tensor normalized_relu(torch::nn::AnyModule& norm, const at::Tensor& x) {
  return summed_relu(norm, {x, {}}).relu;
}

at::Tensor pooled_relu(torch::nn::AnyModule& norm, const at::Tensor& x) {
  if (auto fused = detail::fused_relu(norm, {x, {}}, /*pooled=*/true)) return fused->relu;
  return at::max_pool2d(norm.forward(x).relu_(), 2);
}

}  // namespace stiefel::models

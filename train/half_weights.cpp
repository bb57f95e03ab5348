#include "half_weights.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>

namespace stiefel::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Copies in another type and the same order in memory, made in a few launches for all. What is undefined
/// stays so.
variable_list cast_all(const variable_list& tensors, at::ScalarType type) {
  variable_list result(tensors.size());
  std::vector<at::Tensor> from, to;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    result[i] = at::empty_like(tensors[i], tensors[i].options().dtype(type));
    from.push_back(tensors[i]);
    to.push_back(result[i]);
  }
#if TORCH_VERSION_MAJOR >= 2
  if (!to.empty()) at::_foreach_copy_(to, from);
#else
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
#endif
  return result;
}

class CastAll : public torch::autograd::Function<CastAll> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList weights) {
    context->set_materialize_grads(false);
    return cast_all(weights.vec(), at::kBFloat16);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return cast_all(gradients, at::kFloat);
  }
};

}  // namespace

HalfWeights::HalfWeights(const torch::nn::Module& model, NetworkPrecision precision) {
  if (precision != NetworkPrecision::kBf16) return;
  variable_list weights;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* convolution = module->as<torch::nn::Conv2dImpl>();
    if (convolution == nullptr || convolution->weight.scalar_type() != at::kFloat) continue;
    full_weights_.emplace_back(convolution, convolution->weight);
    weights.push_back(convolution->weight);
  }
  if (weights.empty()) return;
  const auto halves = CastAll::apply(at::TensorList(weights));
  for (size_t i = 0; i < halves.size(); ++i) full_weights_[i].first->weight = halves[i];
}

HalfWeights::~HalfWeights() {
  for (auto& [convolution, weight] : full_weights_) convolution->weight = weight;
}

}  // namespace stiefel::train

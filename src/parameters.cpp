#include <stiefel/parameters.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <unordered_set>

namespace stiefel {

namespace {

using torch::nn::Module;

/// The weight of a plain convolution, or undefined.
template <size_t D, class Impl>
at::Tensor plain_weight(const torch::nn::ConvNdImpl<D, Impl>& layer) {
  return layer.options.groups() == 1 ? layer.weight : at::Tensor();
}

at::Tensor convolution_weight(const Module& module) {
  if (const auto* layer = module.as<torch::nn::Conv1dImpl>()) return plain_weight(*layer);
  if (const auto* layer = module.as<torch::nn::Conv2dImpl>()) return plain_weight(*layer);
  if (const auto* layer = module.as<torch::nn::Conv3dImpl>()) return plain_weight(*layer);
  return {};
}

bool is_wide(const at::Tensor& weight) { return weight.size(0) <= weight.numel() / weight.size(0); }

/// The weights that go on the manifold by default.
std::unordered_set<const void*> default_choice(const Module& root) {
  std::unordered_set<const void*> chosen;
  const void* last_linear = nullptr;
  for (const auto& module : root.modules(/*include_self=*/false)) {
    auto weight = convolution_weight(*module);
    if (const auto* linear = module->as<torch::nn::LinearImpl>()) {
      weight = linear->weight;
      last_linear = weight.unsafeGetTensorImpl();
    }
    if (weight.defined() && weight.numel() > 0 && weight.requires_grad() && is_wide(weight)) {
      chosen.insert(weight.unsafeGetTensorImpl());
    }
  }
  chosen.erase(last_linear);
  return chosen;
}

}  // namespace

ParameterSplit split_parameters(const Module& module, const ParameterPredicate& predicate) {
  const auto chosen = default_choice(module);
  std::unordered_set<const void*> listed;
  ParameterSplit split;
  for (const auto& item : module.named_parameters()) {
    const void* identity = item.value().unsafeGetTensorImpl();
    if (!listed.insert(identity).second) continue;
    const ParameterInfo info{item.key(), item.value(), chosen.count(identity) > 0};
    const bool on_manifold = predicate ? predicate(info) : info.on_manifold;
    (on_manifold ? split.manifold : split.euclidean).push_back(info.tensor);
    (on_manifold ? split.manifold_names : split.euclidean_names).push_back(info.name);
  }
  return split;
}

}  // namespace stiefel

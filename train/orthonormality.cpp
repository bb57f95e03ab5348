#include "orthonormality.h"

#include <stiefel/manifold.h>
#include <stiefel/nn/parametrized.h>

#include "methods.h"

namespace stiefel::train {

bool constrains_weights(const Config& config) {
  return find_method(config.optim).facts.is_constrained() || config.is_parametrized() || config.has_penalty();
}

std::vector<ConstrainedWeight> measure_orthonormality(const models::Network& model, const Config& config) {
  std::vector<ConstrainedWeight> all;
  if (!constrains_weights(config)) return all;
  if (config.is_parametrized()) {
    for (const auto& item : model.named_modules()) {
      const auto* layer = item.value()->as<nn::ParametrizedConv2dImpl>();
      if (layer == nullptr) continue;
      const auto p = layer->proxy.size(0);
      all.push_back({item.key() + ".weight", p, layer->proxy.numel() / p, layer->defect()});
    }
    return all;
  }
  const auto split = model.split();
  for (size_t i = 0; i < split.manifold.size(); ++i) {
    const MatrixView view(split.manifold[i]);
    all.push_back({split.manifold_names[i], view.p(), view.n(), defect(split.manifold[i]).item<double>()});
  }
  return all;
}

}  // namespace stiefel::train

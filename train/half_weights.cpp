#include "half_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace stiefel::train {

namespace {

using torch::autograd::Node;
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

// A backward pass takes the node with the highest number among those that are ready. These nodes are made
// before the layers', and would wait for all of them; just below the gradient accumulators, whose number is
// the largest, they run as soon as the gradients of their weights are there.
constexpr auto kAsSoonAsReady = std::numeric_limits<uint64_t>::max() - 1;

/// Casts gradients of bfloat16 weights back.
class CastBack : public Node {
 public:
  explicit CastBack(const variable_list& weights)
      : Node(kAsSoonAsReady, torch::autograd::collect_next_edges(weights)) {}

  std::string name() const override { return "stiefel::CastBack"; }

  variable_list apply(variable_list&& gradients) override { return cast_all(gradients, at::kFloat); }
};

/// The weights in bfloat16, through which gradients flow back.
variable_list in_halves(const variable_list& weights) {
  variable_list halves;
  {
    const at::NoGradGuard no_grad;
    halves = cast_all(weights, at::kBFloat16);
  }
  const bool learns = at::GradMode::is_enabled() &&
                      std::any_of(weights.begin(), weights.end(),
                                  [](const at::Tensor& weight) { return weight.requires_grad(); });
  if (!learns) return halves;
  const auto node = std::make_shared<CastBack>(weights);
  for (const auto& half : halves) torch::autograd::create_gradient_edge(const_cast<at::Tensor&>(half), node);
  return halves;
}

}  // namespace

HalfWeights::HalfWeights(const torch::nn::Module& model, NetworkPrecision precision, int64_t parts) {
  if (precision != NetworkPrecision::kBf16) return;
  int64_t total = 0;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* convolution = module->as<torch::nn::Conv2dImpl>();
    if (convolution == nullptr || convolution->weight.scalar_type() != at::kFloat) continue;
    full_weights_.emplace_back(convolution, convolution->weight);
    total += convolution->weight.numel();
  }
  // From the last layer, whose gradient comes first.
  size_t end = full_weights_.size();
  while (end > 0) {
    size_t begin = end;
    variable_list weights;
    int64_t numbers = 0;
    do {
      numbers += full_weights_[--begin].second.numel();
      weights.push_back(full_weights_[begin].second);
    } while (begin > 0 && numbers * parts < total);
    const auto halves = in_halves(weights);
    for (size_t i = 0; i < halves.size(); ++i) full_weights_[end - 1 - i].first->weight = halves[i];
    end = begin;
  }
}

HalfWeights::~HalfWeights() {
  for (auto& [convolution, weight] : full_weights_) convolution->weight = weight;
}

}  // namespace stiefel::train
